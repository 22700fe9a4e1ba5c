"""The pages on which actions ask: filled in and sent as a browser does."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client


def confirm(client: Client, page: Any, button: str = "confirmed", **values: Any) -> Any:
    """Fill in the page that an action shows, and click its button: the hidden fields come with it."""
    html = page.content.decode()
    form = html[html.index('<form method="post">') :]
    data: dict[str, Any] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        told = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if told["type"] != "submit" and told.get("name") != "csrfmiddlewaretoken":
            data.setdefault(told["name"], []).append(unescape(told.get("value", "")))
    for name, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        data[name] = re.findall(r'value="([^"]*)"', options)[:1]
    assert f'name="{button}"' in form
    return client.post(page.wsgi_request.get_full_path(), {**data, button: "Go", **values})


def said(answer: Any) -> list[str]:
    """The messages of an action that was carried out."""
    assert answer.status_code == 302, answer.context["form"].errors
    return [str(message) for message in answer.wsgi_request._messages]
