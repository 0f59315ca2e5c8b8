"""Static files by whitenoise, for ASGI as well as WSGI; a page for an address that takes another method."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """whitenoise answers with a file iterator, which ASGI can only read with a warning, and runs every request
    through a thread of its own. Here a file is read at once (ours are small), and other requests pass untouched.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if iscoroutinefunction(self):
            return self._answer_async(request)
        return self._answer_file(request) or self.get_response(request)

    async def _answer_async(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(self.static_prefix):
            response = await sync_to_async(self._answer_file, thread_sensitive=False)(request)
            if response is not None:
                return response
        return await self.get_response(request)

    def _answer_file(self, request: HttpRequest) -> HttpResponse | None:
        path = request.path_info
        static_file = self.find_file(path) if self.autorefresh else self.files.get(path)
        if static_file is None:
            return None
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["content-type"]
        for name, value in found.headers:
            response[name] = value
        return response


class RefusedMethodMiddleware(MiddlewareMixin):
    """A refused method (405) gets the look of the other errors. An answer with a body of its own stays as it is."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if response.status_code == 405 and not response.streaming and not response.content:
            response.content = render_to_string("405.html").encode()
            response.headers["Content-Type"] = "text/html; charset=utf-8"
        return response
