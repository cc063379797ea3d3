//! Kinds of ELF files.

/// Type of the program header that names the dynamic linker.
const PT_INTERP: u32 = 3;
/// Number of the machine, by architecture.
const MACHINES: [(u16, &str); 2] = [(62, "amd64"), (183, "arm64")];

/// Returns the architecture of a 64-bit ELF program that needs no dynamic linker.
///
/// # Errors
/// If it is another file, or needs one.
pub(super) fn static_program(file: &[u8]) -> anyhow::Result<&'static str> {
    anyhow::ensure!(file.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit ELF file of the small byte order");
    let short = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
    let headers = || {
        let (first, size, count) = (usize::try_from(long(32)?).ok()?, usize::from(short(54)?), usize::from(short(56)?));
        (0..count).map(|at| word(first.checked_add(at * size)?)).collect::<Option<Vec<u32>>>()
    };
    let kinds = headers().ok_or_else(|| anyhow::anyhow!("an ELF file that is cut off"))?;
    anyhow::ensure!(!kinds.contains(&PT_INTERP), "it needs a dynamic linker");
    let machine = MACHINES.iter().find(|(number, _)| short(18) == Some(*number));
    machine.map(|(_, name)| *name).ok_or_else(|| anyhow::anyhow!("an ELF file of another machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with program headers of these types.
    fn program(machine: u16, kinds: &[u32]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(64, 0);
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&u16::try_from(kinds.len()).unwrap().to_le_bytes());
        for kind in kinds {
            let at = file.len();
            file.resize(at + 56, 0);
            file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        }
        file
    }

    #[test]
    fn programs() {
        let cut = program(62, &[1, 1])[..100].to_vec();
        for (name, file, want) in [
            ("static, amd64", program(62, &[1, 2, 1]), Ok("amd64")),
            ("static, arm64", program(183, &[1]), Ok("arm64")),
            ("another machine", program(243, &[1]), Err("an ELF file of another machine")),
            ("dynamic", program(62, &[6, PT_INTERP, 1]), Err("it needs a dynamic linker")),
            ("cut off", cut, Err("an ELF file that is cut off")),
            ("a script", b"#!/bin/sh\n".to_vec(), Err("not a 64-bit ELF file of the small byte order")),
            ("empty", Vec::new(), Err("not a 64-bit ELF file of the small byte order")),
        ] {
            let got = static_program(&file).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn this_test_is_dynamic() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(static_program(&own).unwrap_err().to_string(), "it needs a dynamic linker");
    }
}
