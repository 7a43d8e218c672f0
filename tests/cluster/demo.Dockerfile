# The demo's services by themselves, as a team that knows nothing of us would build them.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}
RUN python -m venv /app/venv
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /app/venv/bin/pip install --no-cache-dir --quiet --disable-pip-version-check aiohttp tornado uvloop django gunicorn
COPY . /app
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /app
CMD ["/app/venv/bin/python", "/app/aiohttp_asyncio.py", "--port", "8000"]
