"""Static files by whitenoise, each read at once; a page for an address that takes another method."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Ours are small: no file stays open behind an answer that nobody reads to its end."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
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
