//! The source of the credentials, from which they can be read again.

use std::path::PathBuf;

use gimbal_openstack_client::{Credentials, CredentialsError};

use crate::Args;

/// The source that the command line names.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    place: Place,
    authority: Option<PathBuf>,
}

#[derive(Debug, Clone)]
enum Place {
    Folder(PathBuf),
    Cloud(String),
    Variables,
}

impl Access {
    pub(crate) fn of(args: &Args) -> Self {
        let place = match (&args.credentials, &args.os_cloud) {
            (Some(folder), _) => Place::Folder(folder.clone()),
            (None, Some(name)) => Place::Cloud(name.clone()),
            (None, None) => Place::Variables,
        };
        Self { place, authority: args.openstack_certificate_authority.clone() }
    }

    /// Reads the credentials from the files or variables as they are now.
    pub(crate) fn read(&self) -> Result<Credentials, CredentialsError> {
        let variable = |name: &str| std::env::var(name).ok();
        let credentials = match &self.place {
            Place::Folder(folder) => Credentials::from_dir(folder),
            Place::Cloud(name) => Credentials::from_cloud(name, variable),
            Place::Variables => Credentials::from_env(variable),
        }?;
        match &self.authority {
            Some(file) => credentials.with_authority(file),
            None => Ok(credentials),
        }
    }

    /// Returns the flag to name in an error.
    pub(crate) fn flag(&self) -> &'static str {
        match self.place {
            Place::Folder(_) => "--credentials",
            Place::Cloud(_) => "--os-cloud",
            Place::Variables => "no --credentials and no --os-cloud",
        }
    }
}
