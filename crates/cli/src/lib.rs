//! The verbs of the command line that are clients of the API.
