//! The source of the credentials, from which they can be read again.

use std::path::PathBuf;

use gimbal_openstack_client::{CloudCredentials, CredentialsError};

use crate::Args;

/// The source that the command line names.
#[derive(Debug, Clone)]
pub(crate) struct CredentialsSource {
    location: Location,
    authority: Option<PathBuf>,
}

#[derive(Debug, Clone)]
enum Location {
    Folder(PathBuf),
    Cloud(String),
    Variables,
}

impl CredentialsSource {
    pub(crate) fn of(args: &Args) -> Self {
        let location = match (&args.credentials, &args.os_cloud) {
            (Some(folder), _) => Location::Folder(folder.clone()),
            (None, Some(name)) => Location::Cloud(name.clone()),
            (None, None) => Location::Variables,
        };
        Self { location, authority: args.openstack_certificate_authority.clone() }
    }

    /// Reads the credentials from the files or variables as they are now.
    pub(crate) fn read(&self) -> Result<CloudCredentials, CredentialsError> {
        let variable = |name: &str| std::env::var(name).ok();
        let credentials = match &self.location {
            Location::Folder(folder) => CloudCredentials::from_dir(folder),
            Location::Cloud(name) => CloudCredentials::from_cloud(name, variable),
            Location::Variables => CloudCredentials::from_env(variable),
        }?;
        match &self.authority {
            Some(file) => credentials.with_authority(file),
            None => Ok(credentials),
        }
    }

    /// Returns the flag to name in an error.
    pub(crate) fn flag(&self) -> &'static str {
        match self.location {
            Location::Folder(_) => "--credentials",
            Location::Cloud(_) => "--os-cloud",
            Location::Variables => "no --credentials and no --os-cloud",
        }
    }
}
