"""Markdown tables, and Markdown as one page that opens offline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from markdown_it import MarkdownIt
from markupsafe import Markup

from ivsim.report.html import rendered

# An image of a paragraph of its own, whose SVG is put into the page.
_IMAGE = re.compile(r'<p><img src="([^"]+)" alt="[^"]*"\s*/?></p>')


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def page(text: str, charts: Mapping[str, str]) -> str:
    """Return Markdown (CommonMark and tables, no HTML) as one self-contained page.

    Args:
        text: begins with a heading, which becomes the title.
        charts: file name -> SVG; an image of such a name becomes the SVG itself.
    """
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    # A table of many metrics is wider than a page, and scrolls by itself.
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    body = _IMAGE.sub(lambda found: f"<figure>{charts.get(found[1], '')}</figure>", body)
    title = text.partition("\n")[0].lstrip("# ")
    # Markdown without HTML has been escaped, and matplotlib's SVG too.
    return rendered("page.html", title=title, body=Markup(body))  # noqa: S704
