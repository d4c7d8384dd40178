"""What the pages and the API share: who is asking, what they may, and news as it happens."""
