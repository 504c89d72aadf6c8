"""EXECUTE IMMEDIATE: the expression whose value it executes."""

from __future__ import annotations

from sql.lexed import Lexed


def argument(lexed: Lexed) -> tuple[str, str] | None:
    """The expression that EXECUTE IMMEDIATE executes and its USING clause; None for other statements."""
    text, pieces = lexed.text, lexed.pieces
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces]
    if words[:2] != ["EXECUTE", "IMMEDIATE"] or len(words) < 3:
        return None
    places = {word: place for place, word in enumerate(words) if word in {"INTO", "USING"} and place > 2}
    end = pieces[min(places.values())].start if places else len(text.rstrip("; \t\r\n"))
    return text[pieces[2].start : end].rstrip(), text[pieces[places["USING"]].start :] if "USING" in places else ""
