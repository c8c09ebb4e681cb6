"""A small MCP server, written with the official SDK: the stock of a bicycle shop."""

from mcp.server import MCPServer

STOCK = {"tube": (14, 590), "chain": (0, 2490), "bell": (3, 1200)}
server = MCPServer("stock")


@server.tool()
def in_stock(part: str) -> str:
    """How many of a part the shop has."""
    if part not in STOCK:
        raise ValueError(f"there is no part {part}")
    return str(STOCK[part][0])


@server.tool()
def price_in_cents(part: str) -> str:
    """What a part costs, in cents."""
    return str(STOCK[part][1])


@server.tool()
def order_parts(part: str, number: int) -> str:
    """Order parts from the supplier, which costs money."""
    return f"{number} of {part} are ordered"


if __name__ == "__main__":
    server.run()
