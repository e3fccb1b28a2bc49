#!/bin/sh
# Starts the application; an empty database is filled with the seed data first.
#   PORT      where to listen (8000; 0 chooses a free port)
#   DATABASE  the database file (data/books.db)
set -eu
cd -- "$(dirname -- "$0")/.."
mkdir -p data
exec python3 app/api.py --port "${PORT:-8000}" --database "${DATABASE:-data/books.db}" --seed app/seed.sql
