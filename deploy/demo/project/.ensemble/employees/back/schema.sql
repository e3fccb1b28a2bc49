-- The books of the shop. Safe to load again.
CREATE TABLE IF NOT EXISTS book (
    id     INTEGER PRIMARY KEY,
    title  TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    author TEXT    NOT NULL CHECK (length(author) BETWEEN 1 AND 200),
    year   INTEGER CHECK (year BETWEEN -3000 AND 3000),
    isbn   TEXT    UNIQUE CHECK (length(isbn) BETWEEN 10 AND 17),
    copies INTEGER NOT NULL DEFAULT 1 CHECK (copies >= 0)
);
CREATE INDEX IF NOT EXISTS book_author ON book (author, title);
