"""Operations at Spark and in the gateway, and how they end."""
