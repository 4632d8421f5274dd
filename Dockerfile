# One image for every process of the service; compose.yaml says which command runs where.
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements/runtime.txt .
RUN python -m venv /opt/custody \
 && /opt/custody/bin/pip install --no-cache-dir --require-hashes --no-deps -r runtime.txt

FROM python:3.13-slim
# These directories exist in the image so that a fresh volume takes over their owner and mode.
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin custody \
 && install -d -o custody -g custody -m 0700 /var/lib/custody /var/lib/custody/keys /var/lib/custody/keys-copy \
    /var/lib/custody/signing /var/lib/custody/mirror
COPY --from=build /opt/custody /opt/custody
WORKDIR /srv/custody
COPY policies policies
COPY store store
COPY workers workers
COPY console console
COPY migrations migrations
# The service is not a package: it runs from its directory.
ENV PATH=/opt/custody/bin:$PATH \
    PYTHONPATH=/srv/custody \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=1 \
    CUSTODY_DATA_DIR=/var/lib/custody \
    CUSTODY_KEYS_DIR=/var/lib/custody/keys \
    CUSTODY_KEYS_COPY_DIR=/var/lib/custody/keys-copy
# Last, so that another commit of the same files builds nothing anew.
ARG CUSTODY_BUILD_COMMIT=unknown
ENV CUSTODY_BUILD_COMMIT=$CUSTODY_BUILD_COMMIT
USER custody
EXPOSE 8750 8751
CMD ["granian", "--interface", "asgi", "--factory", "--loop", "uvloop", "--no-ws", "--host", "0.0.0.0", \
     "--port", "8750", "--backlog", "4096", "--backpressure", "4096", "--http1-buffer-size", "18432", \
     "--log-level", "warning", "store.api.app:create_app"]
