use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8]) -> Result<Vec<Piece>, BackupError> {
    let mut reader = Reader::new(bytes, "b".to_owned())?;
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next()? {
        pieces.push(piece);
    }
    Ok(pieces)
}

fn pieces() -> Vec<Piece> {
    let revision = |n| Revision::new(n).unwrap();
    let entry = |modified, value: &'static [u8]| Entry {
        create: revision(2),
        modified: revision(modified),
        version: 3,
        expires: Expiry::at_unix_seconds(7),
        value: Bytes::from_static(value),
    };
    vec![
        Piece::Server { name: "m".into(), revision: revision(1) },
        Piece::Server { name: "members/plane".into(), revision: revision(9) },
        Piece::Entry { key: "/a".into(), entry: entry(9, b"one") },
        Piece::Entry { key: format!("/a/../{}\n", "long".repeat(60)).into(), entry: entry(4, b"two\nlines") },
        Piece::Entry { key: "/b".into(), entry: entry(4, b"") },
        Piece::File { path: "pki/ca.key".into(), bytes: Bytes::from_static(b"key") },
    ]
}

fn written(pieces: &[Piece]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut bytes = Vec::new();
    for piece in pieces {
        writer.put(piece);
        bytes.extend(writer.take());
    }
    bytes.extend(writer.end());
    bytes
}

#[test]
fn every_cut_and_every_changed_bit_is_refused() {
    let bytes = written(&pieces());
    assert_eq!(read(&bytes).unwrap(), pieces());
    for cut in 0..bytes.len() {
        let error = read(&bytes[..cut]).unwrap_err();
        let right = if cut < BLOCK_BYTES {
            matches!(error, BackupError::Foreign { .. })
        } else {
            matches!(error, BackupError::Torn { .. })
        };
        assert!(right, "cut at {cut}: {error}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged).is_err(), "bit {bit}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(read(&longer), Err(BackupError::Damaged { .. })));
}

#[test]
fn members_that_are_missing_doubled_or_moved_are_refused() {
    let members: Vec<Vec<u8>> =
        (0..3).map(|i| written(&pieces()[i..=i])[2 * BLOCK_BYTES..][..2 * BLOCK_BYTES].to_vec()).collect();
    let whole = written(&pieces()[..3]);
    let (head, end) = (&whole[..2 * BLOCK_BYTES], &whole[8 * BLOCK_BYTES..]);
    for (name, order, accepted) in [
        ("as written", &[0, 1, 2][..], true),
        ("a missing member", &[1, 2], false),
        ("a duplicate member", &[0, 1, 2, 2], false),
        ("swapped members", &[1, 0, 2], false),
    ] {
        // The name of an entry contains that of its server, which archives of single entries lack.
        let middle = order.iter().flat_map(|i| match i {
            2 => whole[6 * BLOCK_BYTES..8 * BLOCK_BYTES].to_vec(),
            i => members[*i].clone(),
        });
        let bytes: Vec<u8> = head.iter().copied().chain(middle).chain(end.iter().copied()).collect();
        assert_eq!(read(&bytes).is_ok(), accepted, "{name}");
    }
}

#[test]
fn other_tar_programs_list_the_contents() {
    let bytes = written(&pieces());
    let mut archive = tar::Archive::new(&*bytes);
    let names = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    let long = format!("objects/members/plane/a/%2E%2E/{}_", "long".repeat(60));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "ironclad-backup", "servers/m", "servers/members/plane", "objects/members/plane/a", &long,
            "objects/members/plane/b", "files/pki/ca.key", "end",
        ]
    );
}

#[test]
fn invalid_archives_are_refused() {
    let versioned = |version: &str| {
        let mut bytes = written(&pieces());
        bytes[BLOCK_BYTES..BLOCK_BYTES + version.len()].copy_from_slice(version.as_bytes());
        read(&bytes).unwrap_err().to_string()
    };
    let newer = "backup b has format 2.0, and this version reads up to 1.0: restore it with the newer version";
    assert_eq!(versioned("2.0"), newer);
    assert!(versioned("0.9").contains("never existed"));
    let foreign = read(b"PK\x03\x04 this is some other file").unwrap_err().to_string();
    assert_eq!(foreign, "b is not a backup of ironclad: name a file that `ironclad backup FILE` wrote");
    let mut other = Builder::new(Vec::new());
    other.append_data(&mut Header::new_gnu(), "some/other/archive", &[][..]).unwrap();
    assert!(matches!(read(&other.into_inner().unwrap()), Err(BackupError::Foreign { .. })));
    let all = pieces();
    for (name, pieces) in [
        ("an entry without a server", vec![all[2].clone()]),
        ("a key twice", vec![all[1].clone(), all[2].clone(), all[2].clone()]),
        ("keys out of order", vec![all[1].clone(), all[4].clone(), all[2].clone()]),
        ("an entry newer than its server", vec![all[0].clone(), all[2].clone()]),
        ("a server twice", vec![all[0].clone(), all[0].clone()]),
    ] {
        assert!(matches!(read(&written(&pieces)), Err(BackupError::Damaged { .. })), "{name}");
    }
}

#[test]
fn a_file_outside_of_the_directory_is_refused() {
    let path = "files/pki/../../../etc/cron.d/x";
    let mut writer = Writer::new();
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(0);
    header.set_cksum();
    writer.archive.append(&header, &[][..]).unwrap();
    writer.members += 1;
    let error = read(&writer.end()).unwrap_err();
    assert_eq!(error.to_string(), format!("backup b is damaged (member {path}): use another backup"));
}

#[test]
fn a_member_that_a_later_minor_version_added_is_left_out() {
    let bytes = |version: &str| {
        let mut writer = Writer::new();
        writer.archive = Builder::new(Vec::new());
        writer.members = 0;
        writer.member(FORMAT_MEMBER, version.as_bytes());
        writer.put(&pieces()[0]);
        writer.member("something/new", b"content");
        writer.end()
    };
    assert!(read(&bytes("1.0\n")).is_err(), "in an archive of this version it is damage");
    assert_eq!(read(&bytes("1.1\n")).unwrap(), pieces()[..1]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let _ = read(&bytes);
        let mut with_head = written(&[])[..2 * BLOCK_BYTES].to_vec();
        with_head.extend_from_slice(&bytes);
        let _ = read(&with_head);
    }

    #[test]
    fn any_key_and_value_reads_back(key in "/.{0,300}", value in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let mut pieces = vec![pieces()[1].clone(), pieces()[2].clone()];
        if let Piece::Entry { key: of, entry } = &mut pieces[1] {
            (*of, entry.value) = (key.into(), value.into());
        }
        prop_assert_eq!(read(&written(&pieces)).unwrap(), pieces);
    }
}
