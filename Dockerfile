# One image for every service of docker-compose.yml. The base is named by its digest: a tag can be moved.
# It was not checked against a registry (docs/deployment.md, "Images by digest"). This prints what the tag has today:
# `docker buildx imagetools inspect python:3.11.13-slim-bookworm`
ARG BASE=python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1
FROM ${BASE}

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY fedpriv fedpriv
COPY clients clients
COPY strategies strategies
COPY attacks attacks
COPY simulations simulations
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

# Named volumes take over the owner of the folder they are mounted on.
RUN useradd --uid 10001 --create-home fedpriv \
    && for folder in authority trust superlink serverapp keys key hop secret state runs data \
         client-0 client-1 client-2 client-0-hop client-1-hop client-2-hop; do \
         install --directory --owner=fedpriv --group=fedpriv --mode=0700 /$folder; done

USER fedpriv
WORKDIR /tmp
CMD ["fedpriv", "--help"]
