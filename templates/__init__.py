"""Every file Headnode writes for someone else's program, as Jinja2, and the one renderer.

The environment is sandboxed and strict: a template can reach nothing but the values it is given, and a
value it was not given is an error that names the template, the line and the variable.
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headnode.errors import TemplateFault

HERE = Path(__file__).parent


def render(name: str, /, **values: Any) -> str:
    """Render a template by its path below templates/, e.g. `dnsmasq/dnsmasq.conf.j2`."""
    return render_with(environment(HERE), name, values)


def header(template: str, made_from: str, comment: str = "#") -> str:
    """The first line of every rendered file: which template, and what it was made from."""
    return f"{comment} Made by headnode from templates/{template} for {made_from}. Changes here are overwritten."


def render_with(env: ImmutableSandboxedEnvironment, name: str, values: dict[str, Any]) -> str:
    try:
        return env.get_template(name).render(values, header=header_for(name))
    except TemplateSyntaxError as error:
        raise TemplateFault(f"template {error.name or name}, line {error.lineno}: {error.message}") from error
    except UndefinedError as error:
        raise TemplateFault(f"template {place(error, name)}: {error.message}") from error
    except TemplateNotFound as error:
        raise TemplateFault(f"template {name}: there is no template {error.name}") from error
    except (TemplateError, SecurityError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise TemplateFault(f"template {place(error, name)}: {error}") from error


@cache
def environment(directory: Path) -> ImmutableSandboxedEnvironment:
    env = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(directory),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
        cache_size=-1,
    )
    env.filters["mac_dashes"] = lambda mac: str(mac).replace(":", "-")
    return env


def header_for(name: str) -> Any:
    return lambda made_from, comment="#": header(name, made_from, comment)


def place(error: BaseException, name: str) -> str:
    """Template and line of an error, from the innermost traceback frame that belongs to a template."""
    where = name
    frame = error.__traceback__
    while frame is not None:
        # Jinja2 rewrites tracebacks so that template frames carry the template's file and line.
        if frame.tb_frame.f_code.co_filename.endswith(".j2"):
            where = f"{template_name(frame.tb_frame.f_code.co_filename)}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return where


def template_name(filename: str) -> str:
    try:
        return str(Path(filename).relative_to(HERE))
    except ValueError:
        return Path(filename).name
