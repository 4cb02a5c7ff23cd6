//! The page that shows a team's life.

use crate::support::model_server::{ModelServer, prompt, say};
use crate::teammates::{send, start};
use serde_json::json;

#[test]
fn a_team_is_drawn_on_a_page_that_stands_alone() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), say("Waiting.").into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server
        .on(prompt("ID:anna"), [send("m", "team-lead", "x").into(), say("<script>alert(1)</script>").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);

    let events = world.events().len();
    let team = world.team().file_name().expect("a name").to_string_lossy().into_owned();
    let said = world.festoon(["timeline", &team, "-o", "t.html", "--json"]).run();
    assert_eq!(said.code(0).json(), json!({ "team": team, "events": events, "file": "t.html" }));
    let page = world.read("t.html");
    assert_eq!(page, world.festoon(["timeline", &team, "-o", "-"]).run().code(0).stdout);
    assert_eq!(page.matches("<tr>").count(), events);
    assert!(page.contains("· 2 agents ·"), "{page}");
    assert!(page.contains("anna works for "), "{page}");
    assert!(page.contains("<title>anna → team-lead: a word (peer_dm)</title>"), "{page}");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
    for loads in ["http:", "https:", "src=", "@import", "url(h"] {
        assert!(!page.contains(loads), "{loads}");
    }
    let refused = world.festoon(["timeline", &team, "-o", "no/such/dir.html", "--json"]).run();
    assert_eq!(refused.code(1).error()["kind"], "io");
    world.festoon(["timeline", "nobody"]).run().code(1);
}
