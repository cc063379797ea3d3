//! Lines on stdout for whoever started the process.

use std::io::{self, Write as _};

/// Prints a line on stdout. Nobody may read it any more, which is no reason to end.
pub(crate) fn announce(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}
