//! Images as OCI layouts: folders of blobs that are named by their content.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr as _;

use anyhow::Context as _;
use oci_spec::image::{
    ANNOTATION_CREATED, ANNOTATION_DESCRIPTION, ANNOTATION_LICENSES, ANNOTATION_REF_NAME, ANNOTATION_REVISION,
    ANNOTATION_TITLE, ANNOTATION_VERSION, Arch, ConfigBuilder, Descriptor, Digest, HistoryBuilder,
    ImageConfigurationBuilder, ImageIndexBuilder, ImageManifestBuilder, MediaType, OciLayoutBuilder, Os,
    PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};
use sha2::{Digest as _, Sha256};

use crate::Source;
use crate::layers::{Layer, USER};

/// Writes an image, and returns the digest of its manifest.
pub fn write(folder: &Path, program: &str, source: &Source, layers: &[Layer]) -> anyhow::Result<String> {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).with_context(|| format!("cannot create {}", blobs.display()))?;
    let blob = |media_type: MediaType, content: &[u8]| {
        let digest = sha256(content);
        std::fs::write(blobs.join(&digest), content).with_context(|| format!("cannot write blob {digest}"))?;
        let digest = Digest::from_str(&format!("sha256:{digest}"))?;
        anyhow::Ok(Descriptor::new(media_type, content.len() as u64, digest))
    };
    let annotations: HashMap<String, String> = [
        (ANNOTATION_TITLE, program),
        (ANNOTATION_DESCRIPTION, description(program)),
        (ANNOTATION_VERSION, source.version),
        (ANNOTATION_REVISION, &source.revision),
        (ANNOTATION_CREATED, &source.created),
        (ANNOTATION_LICENSES, "Apache-2.0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let arch = Arch::default();
    let history = layers.iter().map(|layer| {
        let history = HistoryBuilder::default().created(&*source.created).created_by("cargo xtask images");
        history.comment(&*layer.what).build()
    });
    let config = ImageConfigurationBuilder::default()
        .architecture(arch.clone())
        .os(Os::Linux)
        .created(&*source.created)
        .config(
            ConfigBuilder::default()
                .user(format!("{USER}:{USER}"))
                .entrypoint(vec![format!("/{program}")])
                .working_dir("/")
                .labels(annotations.clone())
                .build()?,
        )
        .rootfs(
            RootFsBuilder::default()
                .typ("layers")
                .diff_ids(layers.iter().map(|layer| format!("sha256:{}", sha256(&layer.tar))).collect::<Vec<_>>())
                .build()?,
        )
        .history(history.collect::<Result<Vec<_>, _>>()?)
        .build()?;
    let config = blob(MediaType::ImageConfig, &json(&config)?)?;
    let layers = layers.iter().map(|layer| blob(MediaType::ImageLayerGzip, &layer.gzip));
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(config)
        .layers(layers.collect::<Result<Vec<_>, _>>()?)
        .annotations(annotations)
        .build()?;
    let mut manifest = blob(MediaType::ImageManifest, &json(&manifest)?)?;
    let digest = manifest.digest().to_string();
    manifest.set_platform(Some(PlatformBuilder::default().architecture(arch).os(Os::Linux).build()?));
    manifest.set_annotations(Some([(ANNOTATION_REF_NAME.to_owned(), source.version.to_owned())].into()));
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(vec![manifest])
        .build()?;
    std::fs::write(folder.join("index.json"), json(&index)?)?;
    let layout = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
    std::fs::write(folder.join("oci-layout"), json(&layout)?)?;
    Ok(digest)
}

/// Returns JSON whose maps are sorted: else the same annotations would make another digest with each build.
fn json(value: &impl serde::Serialize) -> anyhow::Result<Vec<u8>> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    Ok(serde_json::to_vec(&value)?)
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn description(program: &str) -> &'static str {
    match program {
        "gimbal-writer" => "Keeps Services and EndpointSlices of the Gimbal cluster as the backends offer them",
        "gimbal-kubernetes-discoverer" => "Offers the Services of a Kubernetes cluster to a Gimbal writer",
        "gimbal-openstack-discoverer" => "Offers the load balancers of an OpenStack cloud to a Gimbal writer",
        "gimbal-kuryr-controller" => "Asks gimbal-openstack-writer for a load balancer for each Service of its cluster",
        "gimbal-openstack-writer" => "Makes the load balancers that Kubernetes clusters want in OpenStack",
        "gimbal-operator" => "Runs a discoverer in the Gimbal cluster for each Backend that names a source",
        _ => "A program of Gimbal",
    }
}
