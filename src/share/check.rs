//! Reading of joint files and of the files that they name, and their check.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use memc_check::Report;
use memc_check::joint::MemberFiles;
use memc_layout::joint::{self, Joint, Member};
use memc_onnx_proto::ModelFile;

use crate::error::Error;
use crate::external::Weights;
use crate::outputs::read;

/// Reads a joint file.
///
/// # Errors
/// The file cannot be read, or is not a joint file.
pub fn read_joint(path: &Path) -> Result<Joint, Error> {
    joint::read(&read(path)?).map_err(|source| Error::Joint { path: path.to_owned(), source })
}

/// Opens the files of all members, whose paths are relative to the joint file.
///
/// # Errors
/// A file cannot be read, is not of its format, or has an absolute path.
pub fn joint_files(path: &Path, joint: &Joint) -> Result<Vec<MemberFiles>, Error> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for member in &joint.members {
        let layout = beside(folder, &member.layout)?;
        let text = read(&layout)?;
        let read_layout =
            memc_layout::read(&text).map_err(|source| Error::Layout { path: layout.clone(), source })?;
        let given = ModelFile::open(beside(folder, &member.given)?)?;
        let model = ModelFile::open(beside(folder, &member.model)?)?;
        let one_folder = Weights::beside(&given, &model).are_in_one_folder();
        files.push(MemberFiles { given, model, text, layout: read_layout, one_folder });
    }
    Ok(files)
}

/// Verifies a joint file and the files that it names.
///
/// # Errors
/// A file cannot be read, or is not of its format.
pub fn check_joint(path: &Path) -> Result<Report, Error> {
    let joint = read_joint(path)?;
    let files = joint_files(path, &joint)?;
    let weights: Vec<Weights> =
        files.iter().map(|files| Weights::beside(&files.given, &files.model)).collect();
    Ok(memc_check::joint::check(&joint, &files, &|member, which, location, offset, length| {
        weights.get(member)?.bytes(which, location, offset, length)
    }))
}

/// First bytes of a member's arenas in a joint file, by space; for a guest, those of its admission at a
/// boundary.
pub fn member_bases(joint: &Joint, member: &Member, after: Option<u64>) -> BTreeMap<String, u64> {
    let is_here = |run: &&joint::Admission| {
        run.guest == member.name && after.is_some_and(|after| run.after[0] <= after && after <= run.after[1])
    };
    joint.admissions.iter().find(is_here).map_or_else(|| member.bases.clone(), |run| run.bases.clone())
}

/// A file by its path from the folder of the joint file.
fn beside(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let is_relative = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    if !name.is_empty() && Path::new(name).components().all(is_relative) {
        return Ok(path);
    }
    let source =
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "a joint file names files relative to itself");
    Err(Error::File { what: "read", path, source })
}
