//! The authority, and the pairs that it signs.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gimbal_certificates::{Authority, PairFacts, PairRequest, SignError, check_trusted};
use gimbal_operator_core::{
    AuthorityState, OperatorSettings, PairSecret, PairState, SecretData, SourceSecret, WantedDiscoverer, pair_object,
};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TRUSTED: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
/// What the digest of the credentials depends on, in the Secret of the pair: a value that no other program knows, and that stays
/// when the next pair is signed.
const SALT: &str = "salt";
/// What discoverers trust, in the Secret of the authority: the writer's certificate may be signed by another authority.
const TRUST: &str = "trust.crt";

/// The keys under which the Secret of the authority has its certificate and its key: as `gimbalctl certs authority` calls the files, or
/// as cert-manager makes the Secret of a Certificate with `isCA`. In that, `ca.crt` is the authority that signed this one.
fn own_keys(data: &SecretData) -> [&'static str; 2] {
    let is_cert_managers =
        !data.0.contains_key(AUTHORITY_KEY) && [CERTIFICATE, KEY].iter().any(|key| data.0.contains_key(*key));
    if is_cert_managers { [CERTIFICATE, KEY] } else { [TRUSTED, AUTHORITY_KEY] }
}

/// What is known of the authority.
#[derive(Default)]
pub(crate) struct Signer {
    state: AuthorityState,
    authority: Option<Authority>,
    /// The certificates of the authorities that discoverers trust.
    trusted: String,
    /// The certificates between a pair and what the writer trusts, which whoever presents the pair has to show as well.
    between: String,
}

impl Signer {
    /// Reads the Secret of the authority, or takes that there is none.
    pub(crate) fn read(&mut self, settings: &OperatorSettings, secret: Option<&SourceSecret>) {
        let name = &settings.authority_secret;
        let read = || -> Result<_, String> {
            let secret = secret.ok_or_else(|| format!("there is no Secret {name} in {}", settings.namespace))?;
            let text = |key: &str| {
                text(&secret.data, key).ok_or_else(|| format!("Secret {name} has no {key}, or it is no text"))
            };
            let [certificate, key] = own_keys(&secret.data);
            let (own, key) = (text(certificate)?, text(key)?);
            let authority =
                Authority::read(&own, &key).map_err(|error| format!("Secret {name} cannot be used: {error}"))?;
            let trust = if secret.data.0.contains_key(TRUST) { TRUST } else { TRUSTED };
            let trusted = text(trust)?.to_string();
            check_trusted(&trusted).map_err(|error| format!("{trust} of Secret {name} cannot be used: {error}"))?;
            // One that signed itself is what the writer trusts, and is not shown.
            let between = if certificate == TRUSTED { String::new() } else { own.to_string() };
            if !between.is_empty() && text(TRUSTED).is_ok_and(|above| *above == *own) {
                return Err(format!(
                    "Secret {name} cannot be used: cert-manager let the authority sign itself, so that a renewed one would be another, \
                     which the writer does not trust: take an issuer of the type ca"
                ));
            }
            Ok(Self { state: AuthorityState::Usable, authority: Some(authority), trusted, between })
        };
        match read() {
            Ok(signer) => *self = signer,
            Err(why) => *self = Self { state: AuthorityState::Unusable(why), ..Self::default() },
        }
    }

    pub(crate) fn state(&self) -> &AuthorityState {
        &self.state
    }

    /// Returns when the authority ends, in seconds since 1970.
    pub(crate) fn not_after(&self) -> Option<i64> {
        self.authority.as_ref().map(|authority| authority.not_after().as_second())
    }

    /// Judges the pair of a discoverer.
    pub(crate) fn judge(
        &self,
        discoverer: &WantedDiscoverer,
        secret: Option<&PairSecret>,
        now: Timestamp,
    ) -> PairState {
        let good = || {
            let (authority, secret) = (self.authority.as_ref()?, secret?);
            let text = |key| text(&secret.data, key);
            let (certificate, key, trusted) = (text(CERTIFICATE)?, text(KEY)?, text(TRUSTED)?);
            let facts = PairFacts::read(&certificate, &key).ok()?;
            let signed_now = secret.signed_by() == Some(authority.fingerprint().as_str()) && *trusted == self.trusted;
            // One that ends with the authority cannot be replaced by one that lasts longer.
            let lasts = now < facts.renewal() || (facts.not_after >= authority.not_after() && now < facts.not_after);
            let shows_all = certificate.ends_with(&self.between);
            let fits = signed_now && shows_all && lasts && facts.names == [discoverer.identity.as_str()];
            (fits && !salt(secret).is_empty()).then_some(PairState::Good)
        };
        good().unwrap_or(PairState::ToBeSigned)
    }

    /// Signs a pair for a discoverer, and returns the Secret with it, with the salt of the Secret that is `there`; `None` without an
    /// authority.
    pub(crate) fn sign(
        &self,
        discoverer: &WantedDiscoverer,
        settings: &OperatorSettings,
        lifetime: Duration,
        there: Option<&PairSecret>,
    ) -> Result<Option<PairSecret>, SignError> {
        let Some(authority) = &self.authority else { return Ok(None) };
        let uris = [discoverer.identity.clone()];
        let request = PairRequest { name: discoverer.name.as_str(), uris: &uris, dns: &[], addresses: &[], lifetime };
        let pair = authority.sign(&request)?.pair;
        let mut salt = there.map(salt).unwrap_or_default();
        if salt.is_empty() {
            salt =
                Zeroizing::new(Sha256::digest(pair.key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect());
        }
        let (certificate, key) = (format!("{}{}", pair.certificate, self.between), pair.key.as_str());
        let values = [(CERTIFICATE, certificate.as_str()), (KEY, key), (TRUSTED, &self.trusted), (SALT, &salt)];
        let encoded = values.map(|(key, value)| (key.to_owned(), Zeroizing::new(STANDARD.encode(value))));
        let data = SecretData(BTreeMap::from(encoded));
        Ok(Some(pair_object(discoverer, settings, &authority.fingerprint(), data)))
    }
}

/// Returns the salt in the Secret of a pair; empty if it has none.
pub(crate) fn salt(pair: &PairSecret) -> Zeroizing<String> {
    text(&pair.data, SALT).unwrap_or_default()
}

/// Returns the text of a key in a Secret.
fn text(data: &SecretData, key: &str) -> Option<Zeroizing<String>> {
    let bytes = STANDARD.decode(data.0.get(key)?.as_bytes()).ok()?;
    String::from_utf8(bytes).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_certificates::make_authority;
    use gimbal_operator_core::SourcedBackend;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
    use rustls::server::WebPkiClientVerifier;
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, UnixTime};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn settings() -> OperatorSettings {
        OperatorSettings {
            identity_prefix: "spiffe://gimbal.example/backend/".into(),
            authority_secret: "authority".into(),
            namespace: "here".into(),
            ..OperatorSettings::default()
        }
    }

    fn discoverer(name: &str) -> WantedDiscoverer {
        let backend: SourcedBackend = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "uid": "u"},
            "spec": {
                "identity": format!("spiffe://gimbal.example/backend/{name}"),
                "source": {"kubernetes": {"kubeconfigSecret": {"name": "a"}}},
            },
        }))
        .unwrap();
        backend.discoverer(&settings()).unwrap()
    }

    fn secret(values: &[(&str, &str)]) -> SourceSecret {
        let encoded = |(key, value): &(&str, &str)| ((*key).to_owned(), Zeroizing::new(STANDARD.encode(value)));
        SourceSecret { data: SecretData(values.iter().map(encoded).collect()), ..SourceSecret::default() }
    }

    fn signer(days: u32) -> Signer {
        let made = make_authority(None, DAY * days).unwrap();
        let mut signer = Signer::default();
        signer.read(&settings(), Some(&secret(&[(TRUSTED, &made.certificate), (AUTHORITY_KEY, &made.key)])));
        assert_eq!(signer.state(), &AuthorityState::Usable);
        signer
    }

    #[test]
    fn a_pair_is_good_until_a_third_of_its_time_is_left() {
        let (signer, one) = (signer(365), discoverer("node02"));
        let pair = signer.sign(&one, &settings(), DAY * 90, None).unwrap().unwrap();
        let after = |days: i64| Timestamp::now() + jiff::SignedDuration::from_secs(days * 86_400);
        assert!(signer.judge(&one, Some(&pair), after(59)) == PairState::Good);
        assert_eq!(signer.judge(&one, Some(&pair), after(61)), PairState::ToBeSigned);
        assert_eq!(signer.judge(&one, None, after(0)), PairState::ToBeSigned);
        assert_eq!(signer.judge(&discoverer("node03"), Some(&pair), after(0)), PairState::ToBeSigned);
    }

    #[test]
    fn a_pair_of_another_authority_or_with_another_key_is_signed_again() {
        let (first, second, one) = (signer(365), signer(365), discoverer("node02"));
        let mut pair = first.sign(&one, &settings(), DAY * 90, None).unwrap().unwrap();
        assert_eq!(second.judge(&one, Some(&pair), Timestamp::now()), PairState::ToBeSigned);
        let other = first.sign(&one, &settings(), DAY * 90, None).unwrap().unwrap();
        pair.data.0.insert(KEY.into(), other.data.0[KEY].clone());
        assert_eq!(first.judge(&one, Some(&pair), Timestamp::now()), PairState::ToBeSigned);
    }

    /// Else it would be signed again ever more often, the closer the end is.
    #[test]
    fn a_pair_that_ends_with_its_authority_stays_to_the_end() {
        let (signer, one) = (signer(30), discoverer("node02"));
        let pair = signer.sign(&one, &settings(), DAY * 90, None).unwrap().unwrap();
        let after = |days: i64| Timestamp::now() + jiff::SignedDuration::from_secs(days * 86_400);
        assert!(signer.judge(&one, Some(&pair), after(29)) == PairState::Good);
        assert_eq!(signer.judge(&one, Some(&pair), after(31)), PairState::ToBeSigned);
    }

    /// The writer's certificate is that of another authority, which signs more than discoverers.
    #[test]
    fn discoverers_trust_what_the_secret_says_and_else_the_authority() {
        let one = discoverer("node02");
        let (own, writers) = (make_authority(None, DAY * 365).unwrap(), make_authority(None, DAY * 365).unwrap());
        let mut signer = Signer::default();
        let values = [(TRUSTED, &*own.certificate), (AUTHORITY_KEY, &*own.key)];
        signer.read(&settings(), Some(&secret(&values)));
        let first = signer.sign(&one, &settings(), DAY, None).unwrap().unwrap();
        assert_eq!(*text(&first.data, TRUSTED).unwrap(), own.certificate);
        let both = format!("{}{}", writers.certificate, own.certificate);
        signer.read(&settings(), Some(&secret(&[&values[..], &[(TRUST, &*both)]].concat())));
        assert_eq!(signer.judge(&one, Some(&first), Timestamp::now()), PairState::ToBeSigned, "it trusts too little");
        let next = signer.sign(&one, &settings(), DAY, Some(&first)).unwrap().unwrap();
        assert_eq!(*text(&next.data, TRUSTED).unwrap(), both);
        assert_eq!(signer.judge(&one, Some(&next), Timestamp::now()), PairState::Good);
        assert_eq!(salt(&next), salt(&first), "a hash of the same credentials stays");
        assert_eq!(salt(&first).len(), 64);
        signer.read(&settings(), Some(&secret(&[&values[..], &[(TRUST, "nothing")]].concat())));
        let AuthorityState::Unusable(why) = signer.state() else { panic!("it is used") };
        assert!(why.starts_with("trust.crt of Secret authority cannot be used"), "{why}");
    }

    /// An authority as cert-manager makes it from an issuer of the type `ca`, and the certificate of that.
    fn issued() -> (SourceSecret, String) {
        let ca = |name: &str, most| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(most);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            (params, KeyPair::generate().unwrap())
        };
        let (params, root_key) = ca("root", BasicConstraints::Unconstrained);
        let root = params.self_signed(&root_key).unwrap();
        let issuer = Issuer::from_ca_cert_der(root.der(), root_key).unwrap();
        let (params, key) = ca("discovery", BasicConstraints::Constrained(0));
        let own = params.signed_by(&key, &issuer).unwrap();
        let values = [(CERTIFICATE, &*own.pem()), (KEY, &*key.serialize_pem()), (TRUSTED, &*root.pem())];
        (secret(&values), root.pem())
    }

    #[test]
    fn an_authority_of_cert_manager_is_shown_beside_what_it_signs() {
        let (one, (secret, root)) = (discoverer("node02"), issued());
        let mut signer = Signer::default();
        signer.read(&settings(), Some(&secret));
        assert_eq!(signer.state(), &AuthorityState::Usable);
        let pair = signer.sign(&one, &settings(), DAY, None).unwrap().unwrap();
        assert_eq!(signer.judge(&one, Some(&pair), Timestamp::now()), PairState::Good);
        assert_eq!(*text(&pair.data, TRUSTED).unwrap(), root);
        // The writer trusts the issuer alone.
        let ders = |pem: &str| -> Vec<_> {
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap()
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ders(&root)[0].clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let shown = ders(&text(&pair.data, CERTIFICATE).unwrap());
        verifier.verify_client_cert(&shown[0], &shown[1..], UnixTime::now()).unwrap();
        verifier.verify_client_cert(&shown[0], &[], UnixTime::now()).unwrap_err();
        // Without it, the pair is signed anew.
        let mut bare = pair.clone();
        let first = text(&pair.data, CERTIFICATE).unwrap().replace(&signer.between, "");
        bare.data.0.insert(CERTIFICATE.into(), Zeroizing::new(STANDARD.encode(first)));
        assert_eq!(signer.judge(&one, Some(&bare), Timestamp::now()), PairState::ToBeSigned);
    }

    /// cert-manager makes another key when it renews it, and no discoverer would be let in any more.
    #[test]
    fn an_authority_of_cert_manager_that_signed_itself_is_not_used() {
        let made = make_authority(None, DAY * 365).unwrap();
        let mut signer = Signer::default();
        let values = [(CERTIFICATE, &*made.certificate), (KEY, &*made.key), (TRUSTED, &*made.certificate)];
        for values in [&values[..], &[&values[..], &[(TRUST, &*made.certificate)]].concat()] {
            signer.read(&settings(), Some(&secret(values)));
            let AuthorityState::Unusable(why) = signer.state() else { panic!("it is used") };
            assert!(why.contains("an issuer of the type ca") && !why.contains(&*made.key), "{why}");
        }
    }

    /// The writer's certificate is that of another authority than the issuer, and cert-manager keeps the key that it did not make.
    #[test]
    fn what_discoverers_trust_stays_when_cert_manager_makes_the_authority() {
        let (one, (secret_, root)) = (discoverer("node02"), issued());
        let writers = make_authority(None, DAY * 365).unwrap().certificate;
        let mut signer = Signer::default();
        let trust = secret(&[(TRUST, &*writers)]).data;
        signer.read(&settings(), Some(&SourceSecret { data: trust.clone(), ..SourceSecret::default() }));
        assert!(matches!(signer.state(), AuthorityState::Unusable(_)), "before it is made, nothing is signed");
        // Some issuers give no `ca.crt`.
        for with_issuer in [true, false] {
            let mut data = secret_.data.clone();
            data.0.extend(trust.0.clone());
            if !with_issuer {
                data.0.remove(TRUSTED);
            }
            signer.read(&settings(), Some(&SourceSecret { data, ..SourceSecret::default() }));
            assert_eq!(signer.state(), &AuthorityState::Usable);
            let pair = signer.sign(&one, &settings(), DAY, None).unwrap().unwrap();
            assert_eq!(*text(&pair.data, TRUSTED).unwrap(), writers);
            assert_ne!(*text(&pair.data, TRUSTED).unwrap(), root);
            assert_eq!(text(&pair.data, CERTIFICATE).unwrap().matches("BEGIN").count(), 2, "the authority is shown");
        }
    }

    #[test]
    fn what_is_wrong_with_an_authority_is_told_without_its_key() {
        let mut signer = Signer::default();
        for (secret, part) in [
            (None, "there is no Secret authority in here"),
            (Some(secret(&[(TRUSTED, "x")])), "has no ca.key"),
            (Some(secret(&[(KEY, "very secret")])), "has no tls.crt"),
            (Some(secret(&[(CERTIFICATE, "x")])), "has no tls.key"),
            (Some(secret(&[(TRUSTED, "x"), (AUTHORITY_KEY, "very secret")])), "cannot be used"),
        ] {
            signer.read(&settings(), secret.as_ref());
            let AuthorityState::Unusable(why) = signer.state() else { panic!("it is used") };
            assert!(why.contains(part) && !why.contains("very secret"), "{why}");
        }
    }
}
