# A server of the Model Context Protocol over a memory in the volume /memory:
#   docker build -t tinymem . && docker run -p 127.0.0.1:8765:8765 -v memory:/memory -e TINYMEM_TOKEN=... tinymem
FROM python:3.13-slim

RUN useradd --create-home --uid 10001 memory && mkdir /memory && chown memory /memory
COPY . /source
RUN pip install --no-cache-dir "/source[mcp]" && rm -rf /source

USER 10001
VOLUME /memory
EXPOSE 8765

HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8765), 4)"]

ENTRYPOINT ["tinymem", "mcp", "--path", "/memory", "--http", "--host", "0.0.0.0"]
