//! Memory that only the start needed goes back to the system (decision 24).

use std::time::Duration;

use ironclad_seam::Seam;

/// How long after the start the first round comes: lists have been read by then.
const FIRST: Duration = Duration::from_secs(10);
/// The time between two rounds.
const EVERY: Duration = Duration::from_secs(30);

/// Gives back, now and again, the pages of the program's own code: what runs is mapped again at once from the cache of files, and
/// what only the start ran, four fifths of it, no longer counts as memory of the process.
pub(crate) fn start(seam: &Seam) {
    let clock = seam.clock.clone();
    seam.tasks.spawn("memory", async move {
        clock.sleep(FIRST).await;
        loop {
            #[cfg(target_os = "linux")]
            if let Err(error) = text::give_back() {
                tracing::debug!(%error, "the pages of the program's code stay in memory");
                return;
            }
            clock.sleep(EVERY).await;
        }
    });
}

#[cfg(target_os = "linux")]
mod text {
    use std::{
        io,
        ops::Range,
        path::{Path, PathBuf},
    };

    use rustix::mm::{Advice, madvise};

    /// Gives back the pages of this program's code.
    ///
    /// # Errors
    /// What the system says, where it does not tell what is mapped.
    pub(super) fn give_back() -> io::Result<()> {
        let (program, maps) = (std::env::current_exe()?, std::fs::read_to_string("/proc/self/maps")?);
        for range in code_of(&program, &maps) {
            // SAFETY: the range is code of this program, mapped from its file and never written: whoever runs or reads it next gets
            // the same bytes from the file.
            #[expect(unsafe_code, reason = "the system call takes an address")]
            unsafe {
                madvise(range.start as *mut _, range.len(), Advice::LinuxDontNeed)?;
            }
        }
        Ok(())
    }

    /// Where the program's code is mapped: what may be run and not be written.
    fn code_of(program: &Path, maps: &str) -> Vec<Range<usize>> {
        let code = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let (range, rights) = (fields.next()?, fields.next()?);
            let path = PathBuf::from(fields.nth(3)?);
            let (start, end) = range.split_once('-')?;
            let address = |text: &str| usize::from_str_radix(text, 16).ok();
            (rights == "r-xp" && path == program).then_some(address(start)?..address(end)?)
        };
        maps.lines().filter_map(code).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_the_programs_own_code_is_given_back() {
            let maps = "\
                55d0a0000000-55d0a1000000 r--p 00000000 fe:00 12  /opt/ironclad\n\
                55d0a1000000-55d0a4000000 r-xp 01000000 fe:00 12  /opt/ironclad\n\
                55d0a4000000-55d0a4100000 rw-p 04000000 fe:00 12  /opt/ironclad\n\
                55d0a4100000-55d0a4200000 rwxp 04100000 fe:00 12  /opt/ironclad\n\
                7f0000000000-7f0000100000 r-xp 00000000 fe:00 13  /lib/libc.so.6\n\
                7f0000200000-7f0000300000 rw-p 00000000 00:00 0\n\
                7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0  [vdso]\n\
                not a line of it\n";
            let (start, end) = (0x55d0_a100_0000, 0x55d0_a400_0000);
            assert_eq!(code_of(Path::new("/opt/ironclad"), maps), vec![start..end]);
            assert!(code_of(Path::new("/opt/another"), maps).is_empty());
        }

        #[test]
        fn the_program_goes_on_after_it_gave_its_code_back() -> io::Result<()> {
            give_back()?;
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            assert!(!code_of(&std::env::current_exe()?, &maps).is_empty(), "it found its own code:\n{maps}");
            Ok(())
        }
    }
}
