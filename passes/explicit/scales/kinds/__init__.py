"""Conversions to kinds of formats with groups, as operations of their own."""
