"""RMCP+ (IPMI 2.0 over UDP) as pure packets and a small asyncio engine; it knows nothing of commands."""
