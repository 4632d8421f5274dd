#!/usr/bin/env bash
# Runs once, when the database is made: the two logins that the service uses. The owner only migrates.
set -euo pipefail

service_password=$(cat /run/secrets/service_password)
duties_password=$(cat /run/secrets/duties_password)
export service_password duties_password

psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv service_password service_password
\getenv duties_password duties_password
CREATE ROLE custody_service NOLOGIN;
CREATE ROLE custody_duties NOLOGIN;
CREATE ROLE custody_service_login LOGIN PASSWORD :'service_password' IN ROLE custody_service;
CREATE ROLE custody_duties_login LOGIN PASSWORD :'duties_password' IN ROLE custody_duties, custody_service;
SQL
