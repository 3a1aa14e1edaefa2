use base64::Engine as _;
use gimbal_testkit::Pki;
use secrecy::ExposeSecret as _;
use tempfile::TempDir;

use super::*;

/// Creates a folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn lookup(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    move |name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Returns all fields of credentials with their secret, or the text of the error.
fn shown(result: Result<CloudCredentials, CredentialsError>) -> String {
    let credentials = match result {
        Ok(credentials) => credentials,
        Err(error) => return error.to_string(),
    };
    let name = |user: &User| match user {
        User::Id(id) => format!("#{id}"),
        User::Name { name, domain: Domain::Id(id) } => format!("{name}@#{id}"),
        User::Name { name, domain: Domain::Name(domain) } => format!("{name}@{domain}"),
    };
    let (who, secret) = match &credentials.proof {
        Proof::Password { user, password } => (name(user), password),
        Proof::Credential { id, secret } => (format!("credential #{id}"), secret),
        Proof::NamedCredential { name: credential, user, secret } => {
            (format!("credential {credential} of {}", name(user)), secret)
        }
    };
    let CloudCredentials { keystone, scope, region, interface, load_balancer, network, .. } = &credentials;
    let mut text = format!("{keystone} {who}:{} {scope:?}", secret.expose_secret());
    for (what, value) in [
        ("region", region.clone()),
        ("interface", Some(interface.as_str().to_owned()).filter(|name| name != "public")),
        ("octavia", load_balancer.as_ref().map(Url::to_string)),
        ("neutron", network.as_ref().map(Url::to_string)),
    ] {
        if let Some(value) = value {
            text.push_str(&format!(" {what}={value}"));
        }
    }
    text
}

fn without_folder(dir: &TempDir, text: &str) -> String {
    text.replace(&dir.path().display().to_string(), "DIR")
}

fn from_dir(files: &[(&str, &str)]) -> String {
    let dir = folder(files);
    without_folder(&dir, &shown(CloudCredentials::from_dir(dir.path())))
}

const URL: (&str, &str) = ("keystoneUrl", "http://k:5000/v3/");
const USER: (&str, &str) = ("username", "u");
const PASSWORD: (&str, &str) = ("password", "p");

#[test]
fn a_folder_as_seed_000_has_it() {
    for (files, expected) in [
        (
            vec![
                ("keystoneUrl", "http://openstack001:5000/v3/"),
                ("neutronUrl", "http://openstack001:9696/"),
                ("username", "someUser"),
                ("password", "secretPassword"),
                ("userDomain", "default"),
            ],
            "http://openstack001:5000/v3 someUser@default:secretPassword Unscoped neutron=http://openstack001:9696/",
        ),
        // Trailing line ends are not part of a value; other blanks are.
        (
            vec![("keystoneUrl", "http://k:5000\n"), ("username", "u\r\n"), ("password", " p \n")],
            "http://k:5000/v3 u@#default: p  Unscoped",
        ),
        (vec![("keystoneUrl", "https://k/identity"), USER, PASSWORD], "https://k/identity/v3 u@#default:p Unscoped"),
        (
            vec![
                URL,
                USER,
                PASSWORD,
                ("userDomain", "d"),
                ("projectName", "x"),
                ("region", "one"),
                ("interface", "internal"),
            ],
            "http://k:5000/v3 u@d:p NamedProject { name: \"x\", domain: Name(\"d\") } region=one interface=internal",
        ),
        (
            vec![URL, USER, PASSWORD, ("projectName", "x"), ("projectDomain", "e")],
            "http://k:5000/v3 u@#default:p NamedProject { name: \"x\", domain: Name(\"e\") }",
        ),
        (vec![URL, USER, PASSWORD, ("projectId", "7")], "http://k:5000/v3 u@#default:p Project(\"7\")"),
        (
            vec![URL, ("applicationCredentialId", "c"), ("applicationCredentialSecret", "s\n")],
            "http://k:5000/v3 credential #c:s Bound",
        ),
        (vec![USER, PASSWORD], "credentials folder DIR: keystoneUrl is missing or empty; set it"),
        (vec![URL, USER, ("password", "\n")], "credentials folder DIR: password is missing or empty; set it"),
        (vec![URL, PASSWORD], "credentials folder DIR: username is missing or empty; set it"),
        (
            vec![URL, ("applicationCredentialSecret", "s")],
            "credentials folder DIR: applicationCredentialId is missing or empty; set it",
        ),
        (
            vec![URL, ("applicationCredentialId", "c"), ("applicationCredentialSecret", "s"), ("projectName", "x")],
            "DIR/projectName: an application credential is bound to its own project; leave this out",
        ),
        (
            vec![("keystoneUrl", "k:5000"), USER, PASSWORD],
            "DIR/keystoneUrl: must start with http:// or https:// and name a host",
        ),
        (vec![("keystoneUrl", "/v3"), USER, PASSWORD], "DIR/keystoneUrl: is not a URL: relative URL without a base"),
        (
            vec![("keystoneUrl", "http://k/v2.0/"), USER, PASSWORD],
            "DIR/keystoneUrl: Keystone v2.0 is not supported; give its address with /v3",
        ),
        (
            vec![("keystoneUrl", "http://u:p@k/v3"), USER, PASSWORD],
            "DIR/keystoneUrl: must not hold a user or a password; give them by their own keys",
        ),
        (
            vec![URL, USER, PASSWORD, ("neutronUrl", "http://n/?x=1")],
            "DIR/neutronUrl: must not hold a query or a fragment",
        ),
        (
            vec![URL, USER, PASSWORD, ("interface", "private")],
            "DIR/interface: \"private\" is unknown; use public, internal or admin",
        ),
        (
            vec![URL, USER, PASSWORD, ("certificateAuthorityData", "%")],
            "DIR/certificateAuthorityData: is neither PEM nor base64 of PEM: Invalid symbol 37, offset 0.",
        ),
        (
            vec![URL, USER, PASSWORD, ("certificateAuthorityData", "aGVsbG8K")],
            "DIR/certificateAuthorityData: holds no certificate in PEM form",
        ),
    ] {
        assert_eq!(from_dir(&files), expected, "{files:?}");
    }
}

#[test]
fn a_folder_that_is_not_there() {
    let dir = folder(&[]);
    let error = CloudCredentials::from_dir(&dir.path().join("x")).unwrap_err().to_string();
    assert!(
        without_folder(&dir, &error).starts_with("credentials folder DIR/x: cannot be read: No such file"),
        "{error}"
    );
    std::fs::write(dir.path().join("keystoneUrl"), [0xff]).unwrap();
    let error = CloudCredentials::from_dir(dir.path()).unwrap_err().to_string();
    assert!(without_folder(&dir, &error).starts_with("DIR/keystoneUrl: cannot be read: "), "{error}");
}

#[test]
fn an_authority_as_pem_or_as_base64_of_it() {
    let dir = folder(&[URL, USER, PASSWORD]);
    let pki = Pki::create(dir.path().join("pki")).unwrap();
    let pem = std::fs::read_to_string(pki.ca()).unwrap();
    let base64 = base64::engine::general_purpose::STANDARD.encode(&pem);
    let wrapped: String =
        base64.as_bytes().chunks(64).map(|line| format!("{}\n", str::from_utf8(line).unwrap())).collect();
    let two = format!("{pem}\n{pem}");
    for (data, count) in [(&pem, 1), (&base64, 1), (&wrapped, 1), (&two, 2)] {
        std::fs::write(dir.path().join("certificateAuthorityData"), data).unwrap();
        assert_eq!(CloudCredentials::from_dir(dir.path()).unwrap().authorities.len(), count);
    }
    let bad = "-----BEGIN CERTIFICATE-----\naGVsbG8K\n-----END CERTIFICATE-----\n";
    std::fs::write(dir.path().join("certificateAuthorityData"), bad).unwrap();
    let error = CloudCredentials::from_dir(dir.path()).unwrap_err().to_string();
    assert!(error.contains("certificateAuthorityData: holds a certificate that cannot be used: "), "{error}");
}

fn from_env(pairs: &[(&str, &str)]) -> String {
    shown(CloudCredentials::from_env(lookup(pairs)))
}

#[test]
fn variables() {
    const URL: (&str, &str) = ("OS_AUTH_URL", "http://k:5000");
    const USER: (&str, &str) = ("OS_USERNAME", "u");
    const PASSWORD: (&str, &str) = ("OS_PASSWORD", "p");
    for (pairs, expected) in [
        (vec![URL, USER, PASSWORD], "http://k:5000/v3 u@#default:p Unscoped"),
        (
            vec![
                URL,
                USER,
                PASSWORD,
                ("OS_TENANT_NAME", "x"),
                ("OS_USER_DOMAIN_NAME", "d"),
                ("OS_PROJECT_DOMAIN_ID", "e"),
            ],
            "http://k:5000/v3 u@d:p NamedProject { name: \"x\", domain: Id(\"e\") }",
        ),
        (
            vec![URL, USER, PASSWORD, ("OS_PROJECT_NAME", "x"), ("OS_DEFAULT_DOMAIN", "e")],
            "http://k:5000/v3 u@#e:p NamedProject { name: \"x\", domain: Id(\"e\") }",
        ),
        (vec![URL, ("OS_USER_ID", "7"), PASSWORD, ("OS_SYSTEM_SCOPE", "all")], "http://k:5000/v3 #7:p System"),
        (
            vec![
                URL,
                USER,
                PASSWORD,
                ("OS_REGION_NAME", "one"),
                ("OS_ENDPOINT_TYPE", "internalURL"),
                ("OS_TENANT_ID", ""),
            ],
            "http://k:5000/v3 u@#default:p Unscoped region=one interface=internal",
        ),
        (
            vec![
                URL,
                USER,
                ("OS_AUTH_TYPE", "v3applicationcredential"),
                ("OS_APPLICATION_CREDENTIAL_NAME", "c"),
                ("OS_APPLICATION_CREDENTIAL_SECRET", "s"),
            ],
            "http://k:5000/v3 credential c of u@#default:s Bound",
        ),
        (vec![], "environment: OS_USERNAME is missing or empty; set it"),
        (vec![URL, USER, ("OS_PASSWORD", "")], "environment: OS_PASSWORD is missing or empty; set it"),
        (vec![USER, PASSWORD], "environment: OS_AUTH_URL is missing or empty; set it"),
        (
            vec![URL, ("OS_AUTH_TYPE", "v3oidcpassword")],
            "OS_AUTH_TYPE: \"v3oidcpassword\" is not supported; use v3password or v3applicationcredential",
        ),
        (
            vec![URL, USER, PASSWORD, ("OS_INSECURE", "True")],
            "OS_INSECURE: certificates are always verified; name the authority that signed the cloud's instead",
        ),
        (vec![URL, USER, PASSWORD, ("OS_INSECURE", "false")], "http://k:5000/v3 u@#default:p Unscoped"),
        (
            vec![URL, USER, PASSWORD, ("OS_SYSTEM_SCOPE", "some")],
            "OS_SYSTEM_SCOPE: \"some\" is unknown; the only system scope is all",
        ),
        (
            vec![URL, USER, PASSWORD, ("OS_CACERT", "/nowhere/ca.pem")],
            "OS_CACERT: /nowhere/ca.pem cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(from_env(&pairs), expected, "{pairs:?}");
    }
}

/// Reads the cloud `lab` from these files in the user's configuration.
fn from_cloud(files: &[(&str, &str)]) -> String {
    let dir = folder(files);
    let home = dir.path().display().to_string();
    let config = dir.path().join("openstack");
    std::fs::create_dir(&config).unwrap();
    for (name, _) in files {
        std::fs::rename(dir.path().join(name), config.join(name)).unwrap();
    }
    without_folder(&dir, &shown(CloudCredentials::from_cloud("lab", lookup(&[("XDG_CONFIG_HOME", &home)]))))
}

#[test]
fn clouds_yaml() {
    const LAB: &str = "clouds:\n  lab:\n    auth: {auth_url: 'http://k:5000', username: u, password: p}\n";
    let lab = |more: &str| format!("{LAB}    {more}\n");
    let secret = "clouds: {lab: {auth: {password: better}}, other: {auth: {password: x}}}";
    for (files, expected) in [
        (vec![("clouds.yaml", LAB.to_owned())], "http://k:5000/v3 u@#default:p Unscoped"),
        (vec![("clouds.yml", LAB.to_owned())], "http://k:5000/v3 u@#default:p Unscoped"),
        (
            vec![("clouds.yaml", LAB.to_owned()), ("secure.yaml", secret.to_owned())],
            "http://k:5000/v3 u@#default:better Unscoped",
        ),
        (
            vec![(
                "clouds.yaml",
                lab("region_name: one\n    interface: internal\n    network_endpoint_override: http://n:9696"),
            )],
            "http://k:5000/v3 u@#default:p Unscoped region=one interface=internal neutron=http://n:9696/",
        ),
        // A key beside `auth` is accepted, too.
        (
            vec![("clouds.yaml", lab("project_name: x\n    user_domain_name: d"))],
            "http://k:5000/v3 u@d:p NamedProject { name: \"x\", domain: Name(\"d\") }",
        ),
        (
            vec![(
                "clouds.yaml",
                "clouds: {lab: {auth_type: v3applicationcredential, auth: {auth_url: 'http://k/v3', \
                 application_credential_id: c, application_credential_secret: s}}}"
                    .to_owned(),
            )],
            "http://k/v3 credential #c:s Bound",
        ),
        (vec![("clouds.yaml", lab("verify: true"))], "http://k:5000/v3 u@#default:p Unscoped"),
        (
            vec![("clouds.yaml", lab("verify: false"))],
            "DIR/openstack/clouds.yaml: clouds.lab.verify: certificates are always verified; name the authority that signed \
             the cloud's instead",
        ),
        (
            vec![(
                "clouds.yaml",
                "clouds: {lab: {auth: {auth_url: 'http://k', username: u, password: 0123}}}".to_owned(),
            )],
            "DIR/openstack/clouds.yaml: clouds.lab.auth.password: is a number; put it in quotes",
        ),
        (
            vec![("clouds.yaml", "clouds: {lab: {auth: {username: u, password: p}}}".to_owned())],
            "DIR/openstack/clouds.yaml: cloud \"lab\": auth.auth_url is missing or empty; set it",
        ),
        (vec![("clouds.yaml", "clouds: {other: {}}".to_owned())], "DIR/openstack/clouds.yaml: has no cloud \"lab\""),
        (vec![("clouds.yaml", "{}".to_owned())], "DIR/openstack/clouds.yaml: has no key clouds"),
        (vec![("clouds.yaml", "clouds: {lab: 7}".to_owned())], "DIR/openstack/clouds.yaml: clouds.lab is not a map"),
        (
            vec![],
            "cloud \"lab\": there is no clouds.yaml in the working folder, ~/.config/openstack or /etc/openstack; name one in \
             OS_CLIENT_CONFIG_FILE",
        ),
    ] {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(from_cloud(&files), expected, "{files:?}");
    }
}

#[test]
fn a_mistake_in_yaml_is_reported_without_its_text() {
    let text = from_cloud(&[("clouds.yaml", "clouds:\n  lab:\n    auth:\n      password: [very-secret\n")]);
    assert!(text.starts_with("DIR/openstack/clouds.yaml: is not YAML that can be read, line "), "{text}");
    assert!(!text.contains("very-secret"), "{text}");
}

#[test]
fn files_that_variables_name() {
    let dir = folder(&[
        ("a.yaml", "clouds: {lab: {auth: {auth_url: 'http://k', username: u}}}"),
        ("b.yaml", "clouds: {lab: {auth: {password: p}}}"),
    ]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (a, b, none) = (path("a.yaml"), path("b.yaml"), path("none.yaml"));
    let named = [("OS_CLOUD", "lab"), ("OS_CLIENT_CONFIG_FILE", a.as_str()), ("OS_CLIENT_SECURE_FILE", b.as_str())];
    assert_eq!(shown(CloudCredentials::from_env(lookup(&named))), "http://k/v3 u@#default:p Unscoped");
    let error = shown(CloudCredentials::from_cloud("lab", lookup(&[("OS_CLIENT_CONFIG_FILE", none.as_str())])));
    assert!(without_folder(&dir, &error).starts_with("DIR/none.yaml: cannot be read: "), "{error}");
}

#[test]
fn debug_shows_no_secret() {
    for pairs in [
        vec![("OS_USERNAME", "u"), ("OS_PASSWORD", "very-secret")],
        vec![("OS_APPLICATION_CREDENTIAL_ID", "c"), ("OS_APPLICATION_CREDENTIAL_SECRET", "very-secret")],
    ] {
        let pairs: Vec<_> = pairs.into_iter().chain([("OS_AUTH_URL", "http://k")]).collect();
        let credentials = CloudCredentials::from_env(lookup(&pairs)).unwrap();
        assert!(!format!("{credentials:?}").contains("very-secret"));
        assert!(shown(Ok(credentials)).contains("very-secret"));
    }
}
