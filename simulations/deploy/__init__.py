"""A real federation from docker-compose.yml: in containers, or as local processes."""
