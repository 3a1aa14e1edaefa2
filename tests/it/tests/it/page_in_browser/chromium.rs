//! A headless Chromium, driven by the DevTools protocol over a pipe (<https://chromedevtools.github.io/devtools-protocol/>).

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gimbal_testkit::eventually;
use gimbal_tests::SOON;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The protocol uses the descriptors 3 and 4.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2";

/// One tab of a browser of its own. Killed when it is dropped.
pub struct Tab {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// The address of each request that the tab has sent.
    pub requests: Vec<String>,
    /// What the page's scripts complained of.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
    _browser: Child,
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

impl Tab {
    /// Starts a browser and opens a page.
    pub async fn open(chromium: &Path, url: &str) -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut browser = Command::new("sh")
            .args(["-c", START])
            .arg(chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run sh")?;
        let input = browser.stdin.take().context("no input")?;
        let output = BufReader::new(browser.stdout.take().context("no output")?);
        let mut tab = Self {
            input,
            output,
            session: None,
            last: 0,
            requests: Vec::new(),
            complaints: Vec::new(),
            _profile: profile,
            _browser: browser,
        };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tab.call("Target.attachToTarget", attach).await?;
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Network", "Runtime", "Page", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await?;
        }
        tab.call("Page.navigate", json!({"url": url})).await?;
        Ok(tab)
    }

    /// Calls a method and returns its result. What the tab tells meanwhile is kept.
    async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last += 1;
        let mut call = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{call}\0").as_bytes()).await.context("the browser has ended")?;
        let answer = tokio::time::timeout(SOON, self.answer()).await;
        answer.with_context(|| format!("no answer to {method}"))?.with_context(|| method.to_owned())
    }

    async fn answer(&mut self) -> anyhow::Result<Value> {
        loop {
            let mut text = Vec::new();
            self.output.read_until(0, &mut text).await?;
            anyhow::ensure!(text.pop() == Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&text)?;
            if message["id"] == self.last {
                anyhow::ensure!(message["error"].is_null(), "{}", message["error"]);
                return Ok(message["result"].clone());
            }
            let params = &message["params"];
            match message["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    self.requests.extend(params["request"]["url"].as_str().map(str::to_owned));
                }
                Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
                Some("Log.entryAdded") => self.complaints.push(params["entry"]["text"].to_string()),
                _ => {}
            }
        }
    }

    /// Returns the value of an expression; of a promise, what it resolves to.
    pub async fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params).await?;
        anyhow::ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) -> anyhow::Result<()> {
        self.until_within(expression, SOON).await
    }

    /// Waits until an expression is true, for so long at most.
    pub async fn until_within(&mut self, expression: &str, long: Duration) -> anyhow::Result<()> {
        eventually(expression, long, async || {
            let value = self.value(expression).await?;
            anyhow::ensure!(value == true, "it is {value}");
            Ok(())
        })
        .await
    }

    /// Presses a key, as a person does.
    pub async fn press(&mut self, key: &str, text: Option<&str>) -> anyhow::Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 0,
        };
        let mut down = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if let Some(text) = text {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", down).await?;
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}),
        )
        .await
        .map(drop)
    }

    /// Types text where the focus is.
    pub async fn enter(&mut self, text: &str) -> anyhow::Result<()> {
        self.call("Input.insertText", json!({"text": text})).await.map(drop)
    }

    /// Changes the size of the window and the colours that the person prefers.
    pub async fn look(&mut self, look: Look) -> anyhow::Result<()> {
        let Look { width, height, dark, .. } = look;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size).await?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await.map(drop)
    }

    /// Returns a picture of the window, as PNG.
    pub async fn picture(&mut self) -> anyhow::Result<Vec<u8>> {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"})).await?;
        STANDARD.decode(answer["data"].as_str().unwrap_or_default()).context("the picture is not in base64")
    }
}
