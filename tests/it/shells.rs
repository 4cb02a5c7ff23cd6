//! Teammates in panes, whatever shell the person and the tmux server have and however that starts.

use crate::panes::{STREAM, has_exactly_the_leaders_environment, odd, team};
use crate::support::model_server::{ModelServer, gate, prompt, say};
use crate::support::panes::Tmux;
use crate::support::wait;
use crate::support::world::{World, command_line};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long every start-up file takes: longer than any worker takes to start.
const START_UP: Duration = Duration::from_secs(40);
/// The files that shells read when they start, with or without a login.
const FILES: [&str; 12] = [
    ".profile",
    ".bash_profile",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".config/fish/config.fish",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
];

fn shell(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH");
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed; scripts/check installs it, or says how"))
}

/// A home in which every shell is slow, noisy, and leaves a trace.
fn noisy_home(world: &World, shell: &Path) -> (PathBuf, PathBuf) {
    let (home, trace) = (PathBuf::from(&world.env["HOME"]), world.outside().join("a-shell-started"));
    for file in FILES {
        let file = home.join(file);
        fs::create_dir_all(file.parent().expect("a parent")).expect("dir");
        // One text that all of them understand.
        let text = format!(
            "touch '{}'\necho 'NOISE of {}'\nsleep {}\n",
            trace.display(),
            shell.display(),
            START_UP.as_secs()
        );
        fs::write(file, text).expect("file");
    }
    (home, trace)
}

/// With `name` as the shell of the person, of the server and of its panes: in a server of the person's, and
/// in a private one.
fn is_not_waited_for(name: &str) {
    let shell = shell(name);
    let path = shell.to_str().expect("UTF-8");
    for beside_the_leader in [true, false] {
        let server = ModelServer::start();
        let mut world = server.world();
        let (home, trace) = noisy_home(&world, &shell);
        world.env.extend(odd());
        world.env.insert("SHELL".into(), path.into());
        let sockets = world.outside().join("tmux").to_str().expect("UTF-8").to_owned();
        world.env.insert("TMUX_TMPDIR".into(), sockets);
        let conf = format!("set -g default-shell '{path}'\n");
        let tmux = Tmux::start_with(&world, &conf, home.to_str().expect("UTF-8"));
        assert_eq!(tmux.ok(&["show-options", "-gv", "default-shell"]), path);
        team(&server, &["anna"]);
        server.on(prompt("ID:anna"), [[gate("anna"), say("Anna is done.")].into()]);
        let began = Instant::now();
        let finish = if beside_the_leader {
            let leader = tmux.leader(&world.env, &STREAM);
            Box::new(move || assert_eq!(leader.wait(), 0, "{}", leader.stderr())) as Box<dyn FnOnce()>
        } else {
            let running = world.festoon(STREAM).start();
            Box::new(move || _ = running.wait().code(0))
        };
        server.reached("anna");
        assert!(began.elapsed() < START_UP, "{name}: {:?}", began.elapsed());
        has_exactly_the_leaders_environment(&world, "anna");
        assert_eq!(world.members()[0]["backendType"], "tmux");
        assert!(!trace.exists(), "{name} has started");
        server.open("anna");
        server.open("lead");
        finish();
        assert!(!trace.exists(), "{name} has started");
        // It would have left a trace: a pane without a command is one of it.
        tmux.ok(&["new-window", "-d", "-t", "user:"]);
        wait::until("the shell starts", || trace.exists());
        drop(tmux);
        wait::until("it is gone", || {
            // Some shells leave what they run at a hang-up.
            let sleeps = world.living().into_iter().filter(|pid| command_line(*pid).starts_with("sleep "));
            for pid in sleeps {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
            }
            world.living().is_empty()
        });
    }
}

#[test]
fn bash_is_not_waited_for() {
    is_not_waited_for("bash");
}

#[test]
fn zsh_is_not_waited_for() {
    is_not_waited_for("zsh");
}

#[test]
fn fish_is_not_waited_for() {
    is_not_waited_for("fish");
}

#[test]
fn tcsh_is_not_waited_for() {
    is_not_waited_for("tcsh");
}
