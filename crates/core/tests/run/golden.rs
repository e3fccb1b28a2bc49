//! Stored journals.
