def render(found): return ""
