//! The cache of one scope's token, which one caller renews for all.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Error;
use crate::token::Token;

/// After a failed renewal the next attempt waits this long, while the old token is still valid.
const NEXT_TRY: Duration = Duration::from_secs(20);

/// The same after Keystone refused the credentials: rare enough that Keystone does not lock the account, and early
/// enough to recover from one refusal by an unavailable directory (LDAP) before the token expires. The pause doubles with
/// each further refusal.
const AFTER_REFUSAL: Duration = Duration::from_secs(300);

/// The longest pause after a refusal: longer than a usual lockout (30 minutes), so that the credentials that are presented
/// again do not lock the account anew.
const LONGEST_AFTER_REFUSAL: Duration = Duration::from_secs(3600);

/// The token of one scope. The first caller that finds no token, or one that is due, requests another. As long as the former
/// one is good, all others go on with that; else they wait, and all of them get the same result: with Keystone down, a
/// hundred callers cause one request, not a hundred in sequence.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Whether its token is made from the credentials, and not from another token.
    from_credentials: bool,
    /// The token. Never locked while anybody waits for something.
    token: std::sync::Mutex<Option<Arc<Token>>>,
    /// Locked by whoever requests another token.
    state: Mutex<State>,
    /// The number of completed attempts.
    tries: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    failure: Option<Error>,
    next_try: Option<Instant>,
    /// How often in a row Keystone has refused the credentials.
    refusals: u32,
}

impl Slot {
    /// Returns a slot whose token is made from the credentials. After Keystone has refused them, they are not presented
    /// again before a pause has passed.
    pub(crate) fn from_credentials() -> Self {
        Self { from_credentials: true, ..Self::default() }
    }

    /// Returns the token, made by `make` if there is none or it is due for renewal.
    pub(crate) async fn token(&self, make: impl AsyncFnOnce() -> Result<Token, Error>) -> Result<Arc<Token>, Error> {
        self.after(None, make).await
    }

    /// Returns another token than `rejected`, which a service did not accept.
    pub(crate) async fn another(
        &self,
        rejected: &Arc<Token>,
        make: impl AsyncFnOnce() -> Result<Token, Error>,
    ) -> Result<Arc<Token>, Error> {
        self.after(Some(rejected), make).await
    }

    /// Drops `token`, so that the next caller gets a new one.
    pub(crate) fn forget(&self, token: &Arc<Token>) {
        // If it is locked, another token is requested already.
        if self.drop_token(token)
            && let Ok(mut state) = self.state.try_lock()
        {
            *state = State::default();
        }
    }

    fn with_token<T>(&self, work: impl FnOnce(&mut Option<Arc<Token>>) -> T) -> T {
        work(&mut self.token.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops `token`. Returns whether it was held.
    fn drop_token(&self, token: &Arc<Token>) -> bool {
        self.with_token(|held| held.take_if(|held| Arc::ptr_eq(held, token)).is_some())
    }

    fn good_token(&self, now: Instant) -> Option<Arc<Token>> {
        self.with_token(|held| held.clone()).filter(|token| token.is_good(now))
    }

    async fn after(
        &self,
        rejected: Option<&Arc<Token>>,
        make: impl AsyncFnOnce() -> Result<Token, Error>,
    ) -> Result<Arc<Token>, Error> {
        let tries = self.tries.load(SeqCst);
        if let Some(rejected) = rejected {
            self.drop_token(rejected);
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            // Keystone may take its time, or never answer, and most of a token's life is left when it is due.
            Err(_) => match self.good_token(Instant::now()) {
                Some(token) => return Ok(token),
                None => self.state.lock().await,
            },
        };
        let now = Instant::now();
        let good = self.good_token(now);
        if let Some(token) = &good
            && (!token.is_due(now) || state.next_try.is_some_and(|next| now < next))
        {
            return Ok(token.clone());
        }
        // Presenting refused credentials again and again locks the account, also for the operator who repairs it.
        if self.from_credentials
            && good.is_none()
            && state.next_try.is_some_and(|next| now < next)
            && let Some(error @ Error::InvalidCredentials { .. }) = &state.failure
        {
            return Err(error.clone());
        }
        // Another caller tried while this one waited; its result is for all that waited.
        if self.tries.load(SeqCst) != tries
            && let Some(error) = &state.failure
        {
            return good.ok_or_else(|| error.clone());
        }
        let made = make().await;
        self.tries.fetch_add(1, SeqCst);
        match made {
            Ok(token) => {
                let token = Arc::new(token);
                self.with_token(|held| *held = Some(token.clone()));
                *state = State::default();
                Ok(token)
            }
            Err(error) => {
                let pause = match error {
                    Error::InvalidCredentials { .. } => state.after_refusal(),
                    _ => NEXT_TRY,
                };
                state.next_try = Some(Instant::now() + pause);
                state.failure = Some(error.clone());
                match good {
                    Some(token) => {
                        tracing::warn!(%error, "a token could not be renewed; the one before it is still good");
                        Ok(token)
                    }
                    None => Err(error),
                }
            }
        }
    }
}

impl State {
    /// Counts a refusal of the credentials, and returns the pause until they are presented again.
    fn after_refusal(&mut self) -> Duration {
        let doublings = self.refusals.min(8);
        self.refusals = self.refusals.saturating_add(1);
        (AFTER_REFUSAL * 2u32.pow(doublings)).min(LONGEST_AFTER_REFUSAL)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::future::join_all;
    use serde_json::json;
    use tokio::sync::Semaphore;
    use tokio::time::advance;

    use super::*;
    use crate::token::tests::{answer, credentials};

    /// Returns a token that is valid for an hour from now.
    fn token() -> Result<Token, Error> {
        let token = json!({"expires_at": "2026-11-21T05:00:00Z"});
        Token::read(&answer(Some("Sat, 21 Nov 2026 04:00:00 GMT"), &token), &credentials(), Instant::now(), 0.0)
    }

    fn down() -> Result<Token, Error> {
        Err(Error::Unreachable { message: "down".into() })
    }

    async fn never() -> Result<Token, Error> {
        panic!("asked though there was no need");
    }

    /// Lets a hundred callers ask at once, while the first is being answered.
    async fn hundred(slot: &Slot, result: fn() -> Result<Token, Error>) -> (u64, Vec<Result<Arc<Token>, Error>>) {
        let made = AtomicU64::new(0);
        let gate = Semaphore::new(0);
        let one = || {
            slot.token(async || {
                made.fetch_add(1, SeqCst);
                let _open = gate.acquire().await.unwrap();
                result()
            })
        };
        let all = join_all((0..100).map(|_| one()));
        let (results, ()) = tokio::join!(all, async {
            tokio::task::yield_now().await;
            gate.add_permits(1);
        });
        (made.into_inner(), results)
    }

    #[tokio::test]
    async fn a_hundred_callers_ask_once() {
        let (made, tokens) = hundred(&Slot::default(), token).await;
        assert_eq!(made, 1);
        let first = tokens[0].as_ref().unwrap();
        assert!(tokens.iter().all(|token| Arc::ptr_eq(token.as_ref().unwrap(), first)));
    }

    #[tokio::test]
    async fn a_hundred_callers_fail_once() {
        let (made, results) = hundred(&Slot::default(), down).await;
        assert_eq!(made, 1);
        assert!(results.iter().all(|result| result.as_ref().unwrap_err().to_string().ends_with("down")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_kept_for_who_comes_later() {
        let slot = Slot::default();
        slot.token(async || down()).await.unwrap_err();
        slot.token(async || token()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_presented_again_after_a_pause_that_grows() {
        let slot = Slot::from_credentials();
        let refused = async || Err(Error::InvalidCredentials { message: "no".into() });
        for pause in [300, 600, 1200, 2400, 3600, 3600] {
            slot.token(refused).await.unwrap_err();
            advance(Duration::from_secs(pause - 1)).await;
            let error = slot.token(never).await.unwrap_err();
            assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
            advance(Duration::from_secs(1)).await;
        }
        slot.token(async || token()).await.unwrap();
        // A later refusal is the first of its row again.
        advance(Duration::from_secs(3601)).await;
        slot.token(refused).await.unwrap_err();
        advance(AFTER_REFUSAL).await;
        slot.token(async || token()).await.unwrap();
    }

    /// Its token comes from another token, and that one's slot pauses.
    #[tokio::test(start_paused = true)]
    async fn a_slot_of_another_scope_does_not_pause_by_itself() {
        let slot = Slot::default();
        slot.token(async || Err(Error::InvalidCredentials { message: "no".into() })).await.unwrap_err();
        slot.token(async || token()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_refusal_is_not_the_end_of_a_token_that_is_good() {
        let slot = Slot::default();
        let refused = async || Err(Error::InvalidCredentials { message: "LDAP is down".into() });
        let first = slot.token(async || token()).await.unwrap();
        advance(Duration::from_secs(2900)).await;
        assert!(Arc::ptr_eq(&first, &slot.token(refused).await.unwrap()));
        advance(AFTER_REFUSAL / 2).await;
        assert!(Arc::ptr_eq(&first, &slot.token(never).await.unwrap()));
        advance(AFTER_REFUSAL / 2).await;
        assert!(!Arc::ptr_eq(&first, &slot.token(async || token()).await.unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn kept_until_it_is_due() {
        let slot = Slot::default();
        let first = slot.token(async || token()).await.unwrap();
        advance(Duration::from_secs(2879)).await;
        assert!(Arc::ptr_eq(&first, &slot.token(never).await.unwrap()));
        advance(Duration::from_secs(2)).await;
        assert!(!Arc::ptr_eq(&first, &slot.token(async || token()).await.unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn keystone_may_be_down_while_a_token_is_good() {
        let slot = Slot::default();
        let first = slot.token(async || token()).await.unwrap();
        advance(Duration::from_secs(2900)).await;
        assert!(Arc::ptr_eq(&first, &slot.token(async || down()).await.unwrap()));
        // Not asked again at once.
        assert!(Arc::ptr_eq(&first, &slot.token(never).await.unwrap()));
        advance(Duration::from_secs(21)).await;
        assert!(!Arc::ptr_eq(&first, &slot.token(async || token()).await.unwrap()));
        advance(Duration::from_secs(3600)).await;
        slot.token(async || down()).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_renewal_while_a_token_is_good() {
        let slot = Slot::default();
        let first = slot.token(async || token()).await.unwrap();
        advance(Duration::from_secs(2900)).await;
        let mut renewal = Box::pin(slot.token(async || std::future::pending().await));
        assert!(futures::poll!(&mut renewal).is_pending());
        for _ in 0..2 {
            let mut others = Box::pin(slot.token(never));
            let Poll::Ready(token) = futures::poll!(&mut others) else { panic!("it waits") };
            assert!(Arc::ptr_eq(&first, &token.unwrap()));
        }
        // One that a service has refused is of no use any more.
        assert!(futures::poll!(Box::pin(slot.another(&first, never))).is_pending());
        assert!(futures::poll!(Box::pin(slot.token(never))).is_pending());
    }

    #[tokio::test]
    async fn a_rejected_token_is_replaced_once() {
        let slot = Slot::default();
        let first = slot.token(async || token()).await.unwrap();
        let second = slot.another(&first, async || token()).await.unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        // Another caller that had the first token gets the second one.
        assert!(Arc::ptr_eq(&second, &slot.another(&first, never).await.unwrap()));
    }
}
