//! Returns memory that only the start needed to the system.

use std::time::Duration;

use ironclad_seam::Seam;

/// Delay of the first round: caches are filled by then.
const FIRST: Duration = Duration::from_secs(10);
/// The time between two rounds.
const EVERY: Duration = Duration::from_secs(30);

/// Releases, from time to time, the pages of the program's own code and constants. Code that runs is mapped again from
/// the page cache; code that only the start ran, four fifths of it, no longer counts as memory of the process.
pub(crate) fn start(seam: &Seam) {
    let clock = seam.clock.clone();
    seam.tasks.supervise(&seam.clock, "memory", move || {
        let clock = clock.clone();
        async move {
            clock.sleep(FIRST).await;
            loop {
                #[cfg(target_os = "linux")]
                if let Err(error) = text::give_back() {
                    tracing::debug!(%error, "releasing pages of the program's code failed");
                    return;
                }
                clock.sleep(EVERY).await;
            }
        }
    });
}

#[cfg(target_os = "linux")]
mod text {
    use std::{io, ops::Range, path::Path};

    use rustix::mm::{Advice, madvise};

    /// Releases the pages of this program's code and constants.
    ///
    /// # Errors
    /// The system does not report the process's mappings.
    pub(super) fn give_back() -> io::Result<()> {
        let (program, maps) = (std::env::current_exe()?, std::fs::read_to_string("/proc/self/smaps")?);
        for range in unchanged(&program, &maps) {
            // SAFETY: the range is mapped from this program's file, is not writable and was never written: its next
            // reader gets the same bytes from the file.
            #[expect(unsafe_code, reason = "the system call takes an address")]
            unsafe {
                madvise(range.start as *mut _, range.len(), Advice::LinuxDontNeed)?;
            }
        }
        Ok(())
    }

    /// Returns the mappings of the program that equal its file: not writable, and without pages that were written
    /// before they were protected, as relocation tables have.
    fn unchanged(program: &Path, maps: &str) -> Vec<Range<usize>> {
        let (mut all, mut at) = (Vec::new(), None);
        for line in maps.lines() {
            if let Some((range, is_candidate)) = mapping(program, line) {
                at = is_candidate.then_some(range);
            } else if let Some(written) = line.strip_prefix("Anonymous:")
                && let Some(range) = at.take()
                && written.split_ascii_whitespace().next() == Some("0")
            {
                all.push(range);
            }
        }
        all
    }

    /// Returns the addresses of a mapping, and whether it is a read-only one of the program; `None` if the line does
    /// not begin a mapping.
    fn mapping(program: &Path, line: &str) -> Option<(Range<usize>, bool)> {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (fields.next()?, fields.next()?);
        let (start, end) = range.split_once('-')?;
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let is_ours = fields.nth(3).is_some_and(|path| Path::new(path) == program);
        Some((address(start)?..address(end)?, is_ours && matches!(rights, "r-xp" | "r--p")))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_mappings_that_equal_the_file_are_released() {
            let mut maps = String::new();
            for (mapping, written) in [
                ("55d0a0000000-55d0a1000000 r--p 00000000 fe:00 12  /opt/ironclad", 0),
                ("55d0a1000000-55d0a4000000 r-xp 01000000 fe:00 12  /opt/ironclad", 0),
                ("55d0a4000000-55d0a4100000 r--p 04000000 fe:00 12  /opt/ironclad", 716),
                ("55d0a4100000-55d0a4200000 rw-p 04100000 fe:00 12  /opt/ironclad", 0),
                ("55d0a4200000-55d0a4300000 rwxp 04200000 fe:00 12  /opt/ironclad", 0),
                ("7f0000000000-7f0000100000 r-xp 00000000 fe:00 13  /lib/libc.so.6", 0),
                ("7f0000200000-7f0000300000 r--p 00000000 00:00 0", 0),
                ("7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0  [vdso]", 0),
            ] {
                maps += &format!("{mapping}\nRss:    3116 kB\nAnonymous:    {written} kB\nVmFlags: rd ex mr mw me\n");
            }
            maps += "not a line of it\n";
            let (constants, code) = (0x55d0_a000_0000..0x55d0_a100_0000, 0x55d0_a100_0000..0x55d0_a400_0000);
            assert_eq!(unchanged(Path::new("/opt/ironclad"), &maps), vec![constants, code]);
            assert!(unchanged(Path::new("/opt/another"), &maps).is_empty());
        }

        #[test]
        fn the_program_runs_after_its_code_was_released() -> io::Result<()> {
            give_back()?;
            let maps = std::fs::read_to_string("/proc/self/smaps")?;
            let found = unchanged(&std::env::current_exe()?, &maps);
            let here = give_back as *const () as usize;
            assert!(found.iter().any(|range| range.contains(&here)), "it found its own code:\n{maps}");
            assert!(found.len() > 1, "and its constants:\n{maps}");
            Ok(())
        }
    }
}
