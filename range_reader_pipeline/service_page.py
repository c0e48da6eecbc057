"""The page about the service: built from its OpenAPI description, in one file that loads nothing from elsewhere."""

import html
import json
from typing import Any, Final

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#f4f4f2;padding:.75rem;overflow:auto}
summary{cursor:pointer}h2{margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}
@media(prefers-color-scheme:dark){body{color:#e8e8e6;background:#161616}pre{background:#222}h2{border-color:#444}}
"""


def service_page(schema: dict[str, Any]) -> str:
    """Return an HTML page for an OpenAPI schema: every path, what it takes and answers, and all message types."""
    parts = [f"<h1>{_text(schema['info']['title'])}</h1>", f"<p>{_text(schema['info'].get('description', ''))}</p>"]
    parts.append('<p>For tools: <a href="/openapi.json">openapi.json</a></p>')
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_text(path)}</code></h2><p>{_text(operation.get('description', ''))}</p>")
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if body:
                parts.append(f"<p>Takes {_link(body['schema'])}</p>")
                examples = body.get("examples", {}).values()
                parts += [f"<pre>{_text(json.dumps(example['value'], indent=1))}</pre>" for example in examples]
            parts.append("<ul>")
            for status, response in operation["responses"].items():
                answer = response.get("content", {}).get("application/json", {}).get("schema", {})
                parts.append(f"<li><code>{status}</code> {_text(response['description'])} {_link(answer)}</li>")
            parts.append("</ul>")
    parts.append("<h2>Messages</h2>")
    for name, message in schema.get("components", {}).get("schemas", {}).items():
        text = _text(json.dumps(message, indent=1))
        parts.append(f'<details id="{_text(name)}"><summary><code>{_text(name)}</code></summary><pre>{text}</pre></details>')
    title = _text(schema["info"]["title"])
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>'


def _link(schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f'<a href="#{_text(name)}"><code>{_text(name)}</code></a>' if name else ""


def _text(text: str) -> str:
    return html.escape(text)
