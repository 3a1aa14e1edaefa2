//! Certificates, both ways.

use std::collections::BTreeSet;
use std::fmt;

use gimbal_kuryr_model::{CertificateContent, CertificateHash, CertificateWish, ReportedCertificate};
use gimbal_wire::Interner;
use gimbal_wire::parse::{Parsed, invalid};
use prost::bytes::Bytes;

use crate::check::{REFERENCE, words};
use crate::pb;

/// Generated without it, for it would show the key.
impl fmt::Debug for pb::CertificateContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateContent(..)")
    }
}

pub(crate) fn encode_wish(wish: &CertificateWish) -> pb::Certificate {
    let CertificateWish { secret, hash } = wish;
    pb::Certificate { secret: secret.to_string(), hash: encode_hash(*hash) }
}

pub(crate) fn parse_wishes(wishes: Vec<pb::Certificate>, intern: &mut Interner) -> Parsed<Box<[CertificateWish]>> {
    let wishes = wishes.into_iter().map(|pb::Certificate { secret, hash }| {
        Ok(CertificateWish {
            secret: words("Secret of a certificate", secret, REFERENCE, intern)?,
            hash: parse_hash(&hash)?,
        })
    });
    let wishes: Box<[CertificateWish]> = wishes.collect::<Parsed<_>>()?;
    let mut hashes = BTreeSet::new();
    if !wishes.iter().all(|wish| hashes.insert(wish.hash)) {
        return invalid("certificates", "have a hash twice");
    }
    Ok(wishes)
}

pub(crate) fn encode_hash(hash: CertificateHash) -> Bytes {
    Bytes::copy_from_slice(hash.as_bytes())
}

pub(crate) fn parse_hash(hash: &[u8]) -> Parsed<CertificateHash> {
    let Ok(bytes) = hash.try_into() else { return invalid("hash of a certificate", "does not have 32 bytes") };
    Ok(CertificateHash::from_bytes(bytes))
}

pub(crate) fn encode_content(content: &CertificateContent) -> pb::CertificateContent {
    pb::CertificateContent {
        chain: Bytes::copy_from_slice(content.chain()),
        key: Bytes::copy_from_slice(content.key()),
    }
}

pub(crate) fn parse_content(content: &pb::CertificateContent) -> CertificateContent {
    let pb::CertificateContent { chain, key } = content;
    CertificateContent::new(chain, key)
}

pub(crate) fn encode_made(made: &ReportedCertificate) -> pb::MadeCertificate {
    let ReportedCertificate { reference, hash } = made;
    pb::MadeCertificate { reference: reference.to_string(), hash: encode_hash(*hash) }
}

pub(crate) fn parse_made(made: pb::MadeCertificate, intern: &mut Interner) -> Parsed<ReportedCertificate> {
    let pb::MadeCertificate { reference, hash } = made;
    Ok(ReportedCertificate {
        reference: words("reference of a certificate", reference, REFERENCE, intern)?,
        hash: parse_hash(&hash)?,
    })
}
