//! The shipped demo, as a newcomer runs it: from any directory, with nothing prepared.

use std::{fs, time::Duration};

use ensemble_tests::{Git, World, tell};

/// It ends with exit 0, delivered, all tasks done, and the tester's report in the branch.
#[test]
fn the_demo_is_delivered() {
    let world = World::with_repository("unused");
    let mut command = world.command(&["demo", "-o", "json"]);
    let elsewhere = world.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    command.current_dir(&elsewhere).env_remove("ENSEMBLE_DATA");
    let done = world.launch(command).wait(Duration::from_secs(180)).expect(0);
    tell(&format!("demo: {:?}", done.took));
    let result = done.json();
    assert_eq!(result["state"], "delivered", "{result:#}");
    let tasks = result["details"].as_array().unwrap();
    assert!(tasks.len() >= 7, "{} tasks", tasks.len());
    for task in tasks {
        assert_eq!(task["state"], "success", "{task:#}");
    }
    let employees: std::collections::BTreeSet<_> =
        tasks.iter().map(|task| task["employee"].as_str()).collect();
    assert_eq!(employees.into_iter().flatten().collect::<Vec<_>>(), ["back", "front", "test"]);

    let project = Git::at(&elsewhere.join("ensemble-demo"));
    assert!(done.stderr.contains("ensemble-demo"), "the directory is named: {done}");
    assert!(done.stderr.contains("stand in for agents"), "it says what its employees are: {done}");
    let branch = result["branch"].as_str().unwrap();
    let report = project.text(branch, "test_report.md").expect("the tester's report");
    assert!(!report.trim().is_empty());
    assert!(fs::read_dir(world.path("state/ensemble")).unwrap().count() == 1, "kept in the state directory");
    world.nobody_left(&[]);

    // Once more from the same directory: a new one beside the first.
    let taken = elsewhere.join("ensemble-demo");
    let mut command = world.command(&["demo", taken.to_str().unwrap()]);
    command.current_dir(&elsewhere);
    let _ = world.launch(command).wait(Duration::from_secs(60)).expect(2).saying("not empty");
}
