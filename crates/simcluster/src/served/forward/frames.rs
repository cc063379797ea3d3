//! Frames of SPDY/3.1, in which Kubernetes carries forwarded ports (decision 240): bytes in, frames out, without IO.

use flate2::{Decompress, FlushDecompress, Status};

/// The most bytes of a frame. Clients copy in pieces of 32 KiB.
const FRAME_MAX: usize = 1 << 20;
/// The most bytes of a block of headers, inflated.
const HEADERS_MAX: usize = 16 << 10;
/// Bytes before the content of each frame.
const PREFIX: usize = 8;
/// Two bytes that describe the stream, which may be followed by the checksum of the dictionary.
const ZLIB: (usize, usize) = (2, 4);
/// Bit of zlib's second byte: the checksum of a dictionary follows.
const WITH_DICTIONARY: u8 = 0x20;

/// Flag of the last frame that a side sends on a stream.
const LAST: u8 = 1;

const OPEN: u16 = 1;
const OPENED: u16 = 2;
const RESET: u16 = 3;
const PING: u16 = 6;
const HEADERS: u16 = 8;

/// Reasons of a reset.
pub(super) mod reason {
    pub(in super::super) const PROTOCOL: u32 = 1;
    pub(in super::super) const REFUSED: u32 = 3;
}

/// Frames that the other side of a connection sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// SYN_STREAM. Names of headers are in lower case.
    Open { stream: u32, headers: Vec<(String, String)>, last: bool },
    /// DATA.
    Data { stream: u32, data: Vec<u8>, last: bool },
    /// RST_STREAM.
    Reset { stream: u32 },
    /// PING.
    Ping { id: u32 },
}

/// Defect after which nothing on the connection can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("a frame of {0} bytes is longer than {FRAME_MAX}")]
    Frame(usize),
    #[error("a frame of SPDY version {0}, not 3")]
    Version(u16),
    #[error("a frame is too short for its type")]
    Short,
    #[error("a block of headers is not what zlib makes with the dictionary of SPDY/3")]
    Compression,
    #[error("a block of headers has more than {HEADERS_MAX} bytes")]
    Headers,
}

/// Takes bytes in, in whatever pieces they arrive.
pub(super) struct Decoder {
    pending: Vec<u8>,
    inflate: Decompress,
    /// The stream of compressed headers has begun.
    begun: bool,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { pending: Vec::new(), inflate: Decompress::new(false), begun: false }
    }

    /// Appends bytes. Frames that they complete are taken with [`Decoder::next`].
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame; types that say nothing to a server of ports are left out.
    ///
    /// # Errors
    /// If the bytes are no frames. The connection has to be closed then.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            let Some(prefix) = self.pending.first_chunk::<PREFIX>() else { return Ok(None) };
            let (first, length) = (word(&prefix[..4]), word(&prefix[4..]));
            let (flags, length) = ((length >> 24) as u8, (length & 0x00ff_ffff) as usize);
            if length > FRAME_MAX {
                return Err(Broken::Frame(length));
            }
            if self.pending.len() < PREFIX + length {
                return Ok(None);
            }
            let content: Vec<u8> = self.pending.drain(..PREFIX + length).skip(PREFIX).collect();
            if let Some(frame) = self.frame(first, flags, content)? {
                return Ok(Some(frame));
            }
        }
    }

    fn frame(&mut self, first: u32, flags: u8, content: Vec<u8>) -> Result<Option<Frame>, Broken> {
        let last = flags & LAST != 0;
        if first >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: first, data: content, last }));
        }
        match (first >> 16) as u16 & 0x7fff {
            3 => {}
            other => return Err(Broken::Version(other)),
        }
        let kind = first as u16;
        // Of the stream that a stream belongs to, its priority and its slot, only the length matters.
        let fixed = match kind {
            OPEN => 10,
            OPENED | HEADERS | PING => 4,
            RESET => 8,
            _ => return Ok(None),
        };
        let (head, block) = content.split_at_checked(fixed).ok_or(Broken::Short)?;
        let id = word(&head[..4]) & 0x7fff_ffff;
        Ok(match kind {
            RESET => Some(Frame::Reset { stream: id }),
            PING => Some(Frame::Ping { id: word(&head[..4]) }),
            kind => {
                // Read in each frame that has one, or the next could not be inflated.
                let headers = self.headers(block)?;
                (kind == OPEN).then_some(Frame::Open { stream: id, headers, last })
            }
        })
    }

    fn headers(&mut self, mut block: &[u8]) -> Result<Vec<(String, String)>, Broken> {
        if !self.begun {
            self.begun = true;
            let (described, checksum) = ZLIB;
            let flags = *block.get(1).ok_or(Broken::Compression)?;
            let skipped = described + if flags & WITH_DICTIONARY == 0 { 0 } else { checksum };
            block = block.get(skipped..).ok_or(Broken::Compression)?;
            // An uncompressed block whose content is the dictionary leaves in the window what a preset one does.
            let dictionary = dictionary();
            let mut out = vec![0; dictionary.len() + 1];
            if inflate(&mut self.inflate, &stored(&dictionary), &mut out)? != dictionary.len() {
                return Err(Broken::Compression);
            }
        }
        let mut out = vec![0; HEADERS_MAX];
        let length = inflate(&mut self.inflate, block, &mut out)?;
        pairs(&out[..length])
    }
}

/// Inflates a whole piece, and returns how many bytes became of it.
fn inflate(state: &mut Decompress, piece: &[u8], out: &mut [u8]) -> Result<usize, Broken> {
    let before = (state.total_in(), state.total_out());
    let status = state.decompress(piece, out, FlushDecompress::Sync).map_err(|_| Broken::Compression)?;
    let read = (state.total_in() - before.0) as usize;
    let written = (state.total_out() - before.1) as usize;
    if written == out.len() {
        return Err(Broken::Headers);
    }
    if status == Status::StreamEnd || read < piece.len() {
        return Err(Broken::Compression);
    }
    Ok(written)
}

/// Names and values of an inflated block.
fn pairs(mut block: &[u8]) -> Result<Vec<(String, String)>, Broken> {
    let number = |from: &mut &[u8]| -> Result<usize, Broken> {
        let (number, rest) = from.split_first_chunk::<4>().ok_or(Broken::Short)?;
        *from = rest;
        Ok(word(number) as usize)
    };
    let count = number(&mut block)?;
    let text = |from: &mut &[u8]| -> Result<String, Broken> {
        let length = number(from)?;
        let (text, rest) = from.split_at_checked(length).ok_or(Broken::Short)?;
        *from = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    };
    let mut pairs = Vec::new();
    // Each takes bytes of a bounded block, so that a number that is too large ends it.
    for _ in 0..count {
        pairs.push((text(&mut block)?.to_ascii_lowercase(), text(&mut block)?));
    }
    Ok(pairs)
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

/// Writes frames to the other side.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    /// The stream of compressed headers has begun.
    begun: bool,
}

impl Encoder {
    /// SYN_REPLY without headers, which accepts a stream. Its block is not compressed, which every inflater reads,
    /// whatever dictionary it was given. An empty block ends it, as a flush does: Go's inflater hands out no block
    /// before the next one begins.
    pub(super) fn opened(&mut self, stream: u32, out: &mut Vec<u8>) {
        let mut content = stream.to_be_bytes().to_vec();
        if !self.begun {
            self.begun = true;
            content.extend([0x78, 0x01]);
        }
        content.extend(stored(&0_u32.to_be_bytes()));
        content.extend(stored(&[]));
        control(OPENED, &content, out);
    }
}

/// DATA; an empty one without `last` is left out.
pub(super) fn data(stream: u32, data: &[u8], last: bool, out: &mut Vec<u8>) {
    if data.is_empty() && !last {
        return;
    }
    let mut pieces = data.chunks(FRAME_MAX).peekable();
    loop {
        let piece = pieces.next().unwrap_or_default();
        let ends = pieces.peek().is_none();
        out.extend(stream.to_be_bytes());
        let flags = if ends && last { LAST } else { 0 };
        out.extend(((u32::from(flags) << 24) | piece.len() as u32).to_be_bytes());
        out.extend(piece);
        if ends {
            return;
        }
    }
}

/// RST_STREAM, with one of [`reason`].
pub(super) fn reset(stream: u32, reason: u32, out: &mut Vec<u8>) {
    control(RESET, &[stream.to_be_bytes(), reason.to_be_bytes()].concat(), out);
}

/// PING, which answers one of the other side.
pub(super) fn ping(id: u32, out: &mut Vec<u8>) {
    control(PING, &id.to_be_bytes(), out);
}

fn control(kind: u16, content: &[u8], out: &mut Vec<u8>) {
    out.extend((0x8003_0000 | u32::from(kind)).to_be_bytes());
    out.extend((content.len() as u32).to_be_bytes());
    out.extend(content);
}

/// A block of deflate that is not compressed, and not the last; of at most 65,535 bytes.
fn stored(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u16;
    [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), content].concat()
}

/// Names of headers that the dictionary of SPDY/3 begins with, each after its length; then comes [`PHRASES`].
const NAMES: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
const PHRASES: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 \
    Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept \
    Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,\
    sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let names = NAMES.split(' ').map(|name| name.replace('_', " "));
    let mut dictionary: Vec<u8> =
        names.flat_map(|name| [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat()).collect();
    dictionary.extend(PHRASES.as_bytes());
    dictionary
}

/// As a client that compresses with the dictionary sends them.
#[cfg(test)]
pub(super) mod client {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    /// Compresses headers of a connection.
    pub(in super::super) struct Client {
        deflate: Compress,
        begun: bool,
    }

    impl Client {
        pub(in super::super) fn new() -> Self {
            Self { deflate: Compress::new(Compression::best(), false), begun: false }
        }

        fn compressed(&mut self, piece: &[u8]) -> Vec<u8> {
            let mut out = Vec::with_capacity(1 << 16);
            self.deflate.compress_vec(piece, &mut out, FlushCompress::Sync).unwrap();
            out
        }

        /// SYN_STREAM.
        pub(in super::super) fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut block = (headers.len() as u32).to_be_bytes().to_vec();
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                block.extend((text.len() as u32).to_be_bytes());
                block.extend(text.as_bytes());
            }
            let mut content = [&stream.to_be_bytes()[..], &[0; 6]].concat();
            if !self.begun {
                self.begun = true;
                content.extend([0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2]);
                // What refers to the window from here on refers to the dictionary, which is not sent.
                self.compressed(&dictionary());
            }
            content.extend(self.compressed(&block));
            let mut out = Vec::new();
            control(OPEN, &content, &mut out);
            out
        }
    }
}
