"""Operations at Spark and of the gateway's own, and how they end."""
