//! All backends, and which of them may have something to say: asking every one after each change would cost each change
//! more, the more backends there are.

use std::collections::BTreeMap;

use gimbal_model::BackendName;

use crate::{Backend, probe};

/// See the module. Whatever a backend has to say comes of a change of it, so each that was lent out to be changed is asked
/// next time, and nobody who changes one has to tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backends {
    all: BTreeMap<BackendName, Backend>,
    stirred: Vec<BackendName>,
}

impl Backends {
    pub(crate) fn all(&self) -> &BTreeMap<BackendName, Backend> {
        &self.all
    }

    pub(crate) fn get(&self, name: &BackendName) -> Option<&Backend> {
        probe::looked();
        self.all.get(name)
    }

    pub(crate) fn contains_key(&self, name: &BackendName) -> bool {
        self.all.contains_key(name)
    }

    /// The name that a label stands for, if there is such a backend.
    pub(crate) fn name(&self, label: &str) -> Option<&BackendName> {
        self.all.get_key_value(label).map(|(name, _)| name)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &BackendName> {
        self.all.keys().inspect(|_| probe::looked())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Backend> {
        self.all.values().inspect(|_| probe::looked())
    }

    pub(crate) fn get_mut(&mut self, name: &BackendName) -> Option<&mut Backend> {
        let backend = self.all.get_mut(name)?;
        Self::stir(&mut self.stirred, backend);
        Some(backend)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        self.all.values_mut().for_each(|backend| Self::stir(&mut self.stirred, backend));
        self.all.values_mut()
    }

    pub(crate) fn insert(&mut self, backend: Backend) {
        self.all.insert(backend.name.clone(), backend);
    }

    pub(crate) fn remove(&mut self, name: &BackendName) -> Option<Backend> {
        self.all.remove(name)
    }

    /// Hands each one that was changed since the last call to `ask`.
    pub(crate) fn ask_stirred(&mut self, mut ask: impl FnMut(&mut Backend)) {
        for name in std::mem::take(&mut self.stirred) {
            if let Some(backend) = self.all.get_mut(&name) {
                probe::looked();
                backend.stirred = false;
                ask(backend);
            }
        }
    }

    fn stir(stirred: &mut Vec<BackendName>, backend: &mut Backend) {
        probe::looked();
        if !std::mem::replace(&mut backend.stirred, true) {
            stirred.push(backend.name.clone());
        }
    }
}
