# One image for every service of docker-compose.yml. The base is named by its digest: a tag can be moved.
# It was not checked against a registry (docs/deployment.md, "Images by digest"). This prints what the tag has today:
# `docker buildx imagetools inspect python:3.11.13-slim-bookworm`
ARG BASE=python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1
FROM ${BASE}

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# Where torch comes from, and which lock goes with it. The default lock has torch with CUDA. A small image for machines without a GPU:
#   docker build --build-arg LOCK=requirements-cpu.lock --build-arg TORCH_INDEX=ADDRESS .
# ADDRESS is an index of CPU wheels. That lock has everything but torch. The two packages of requirements-torch.txt are then taken from TORCH_INDEX, by their versions alone.
ARG LOCK=requirements-image.lock
ARG TORCH_INDEX=

WORKDIR /app
COPY requirements-torch.txt ${LOCK} ./
RUN pip install --no-cache-dir --no-compile --require-hashes --no-deps --requirement ${LOCK} \
    && if [ -n "${TORCH_INDEX}" ]; then \
         pip install --no-cache-dir --no-compile --no-deps --index-url "${TORCH_INDEX}" --requirement requirements-torch.txt; fi \
    && find / -xdev -type d -name tests -path '*-packages/*' -prune -exec rm -rf {} +

COPY pyproject.toml setup.py README.md LICENSE ./
COPY fedpriv fedpriv
COPY clients clients
COPY strategies strategies
COPY attacks attacks
COPY simulations simulations
RUN pip install --no-cache-dir --no-compile --no-deps --no-build-isolation .

# Named volumes take over the owner of the folder they are mounted on.
RUN useradd --uid 10001 --create-home fedpriv \
    && for folder in authority trust superlink serverapp keys key hop secret state runs data \
         client-0 client-1 client-2 client-0-hop client-1-hop client-2-hop; do \
         install --directory --owner=fedpriv --group=fedpriv --mode=0700 /$folder; done

USER fedpriv
WORKDIR /tmp
CMD ["fedpriv", "--help"]
