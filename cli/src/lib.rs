//! The tri command.
