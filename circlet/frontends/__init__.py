"""Ways in that others define: interfaces of other engines, with Circlet behind them."""
