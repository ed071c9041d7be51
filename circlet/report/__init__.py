"""Reports: what a network is, costs and takes, as one page that a browser shows."""
