"""numc.search: the cheapest arithmetic of a model that keeps a metric within a tolerance of fp32."""
