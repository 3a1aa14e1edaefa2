//! The variables `OS_*`.

use super::given::{CredentialsOrigin, Given, SETTINGS};

pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Given {
    let mut given = Given::new(CredentialsOrigin::Environment);
    for setting in SETTINGS {
        let found = setting.variable.iter().find_map(|name| {
            let text = variable(name).filter(|text| !text.is_empty())?;
            Some((text, (*name).to_owned()))
        });
        if let Some((text, name)) = found {
            given.put(setting.key, text, name);
        }
    }
    given
}
