# docker build -t boostrank .                          train, predict, compare ...
# docker build -t boostrank-serve --target serve .     scores over HTTP
FROM python:3.12.12-slim-bookworm AS base
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
# The versions that were tested, with hashes; its first lines say how it is made anew.
COPY docker/requirements.txt /src/docker/
RUN pip install --no-cache-dir --require-hashes -r /src/docker/requirements.txt
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE /src/
COPY boostrank /src/boostrank
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src && rm -r /src
ENV NUMBA_CACHE_DIR=/opt/boostrank
# Name each objective that you train, other than the default ones.
RUN boostrank compile --objective shf-sdcg && chmod -R a+rX /opt/boostrank
USER 65534:65534
WORKDIR /work

FROM base AS serve
EXPOSE 8080
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/health')"]
ENTRYPOINT ["boostrank", "serve", "--host", "0.0.0.0"]
CMD ["model.txt"]

FROM base
ENTRYPOINT ["boostrank"]
