//! Certificates issued for one test run, because checked-in ones would expire.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// A subject alternative name.
#[derive(Debug, Clone, Copy)]
pub enum San<'a> {
    /// For instance `localhost`.
    Dns(&'a str),
    /// For instance `spiffe://gimbal.example/backend/node02`.
    Uri(&'a str),
    /// For instance `127.0.0.1`.
    Ip(&'a str),
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Certificate.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// A certificate authority.
pub struct Pki {
    dir: PathBuf,
    ca: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Creates an authority whose files are kept in `dir`.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn create(dir: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let key = KeyPair::generate()?;
        let mut params = named("gimbal test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let ca = dir.join("ca.pem");
        write(&ca, &params.self_signed(&key)?.pem())?;
        Ok(Self { dir, ca, issuer: Issuer::new(params, key) })
    }

    /// Returns the authority's certificate.
    #[must_use]
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// Issues a certificate that is valid for clients and servers. Replaces an earlier one of this name, as a rotation
    /// does.
    ///
    /// # Errors
    /// The name is not valid in a certificate, or the files cannot be written.
    pub fn issue(&self, name: &str, sans: &[San<'_>]) -> anyhow::Result<Pair> {
        self.write_pair(name, sans, named(name))
    }

    /// As [`Pki::issue`], but the certificate expired in the year 2000.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn issue_expired(&self, name: &str, sans: &[San<'_>]) -> anyhow::Result<Pair> {
        let mut params = named(name);
        params.not_after = rcgen::date_time_ymd(2000, 1, 1);
        self.write_pair(name, sans, params)
    }

    /// As [`Pki::issue`], but the certificate expires after `lifetime`, to within a second.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn issue_for(&self, name: &str, sans: &[San<'_>], lifetime: Duration) -> anyhow::Result<Pair> {
        let mut params = named(name);
        let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + lifetime;
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        self.write_pair(name, sans, params)
    }

    /// Issues a certificate for a server on this machine.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn server(&self, name: &str) -> anyhow::Result<Pair> {
        self.issue(name, &[San::Dns("localhost"), San::Ip("127.0.0.1"), San::Ip("::1")])
    }

    /// Issues a backend's certificate, with its identity and this machine's names, since a discoverer serves with the
    /// same pair that it connects with.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn backend(&self, name: &str) -> anyhow::Result<Pair> {
        let identity = backend_identity(name);
        self.issue(name, &[San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1"), San::Ip("::1")])
    }

    fn write_pair(&self, name: &str, sans: &[San<'_>], mut params: CertificateParams) -> anyhow::Result<Pair> {
        params.subject_alt_names = sans.iter().map(|san| san_type(*san)).collect::<anyhow::Result<_>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let pair = Pair { cert: self.dir.join(format!("{name}.pem")), key: self.dir.join(format!("{name}.key")) };
        write(&pair.key, &key.serialize_pem())?;
        write(&pair.cert, &params.signed_by(&key, &self.issuer)?.pem())?;
        Ok(pair)
    }
}

/// Returns the SHA-256 of a certificate, as hexadecimal digits.
///
/// # Errors
/// The file cannot be read, or holds no certificate in PEM.
pub fn fingerprint(cert: &Path) -> anyhow::Result<String> {
    use rustls_pki_types::pem::PemObject as _;
    use sha2::Digest as _;
    let der = rustls_pki_types::CertificateDer::from_pem_file(cert).context("no certificate")?;
    Ok(sha2::Sha256::digest(&der).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the identity that [`Pki::backend`] puts into a certificate.
#[must_use]
pub fn backend_identity(name: &str) -> String {
    format!("spiffe://gimbal.example/backend/{name}")
}

fn san_type(san: San<'_>) -> anyhow::Result<SanType> {
    Ok(match san {
        San::Dns(name) => SanType::DnsName(name.try_into().with_context(|| format!("DNS name {name:?}"))?),
        San::Uri(uri) => SanType::URI(uri.try_into().with_context(|| format!("URI {uri:?}"))?),
        San::Ip(ip) => SanType::IpAddress(ip.parse().with_context(|| format!("address {ip:?}"))?),
    })
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
