import type { Content, Id, Ref, SessionKey, SRef } from '#protocol';

/** Where a running turn's children are taken in. The app puts the intake here. */
export abstract class ChildDoor {
  /**
   * Accepts a child, or finds it accepted.
   * @throws ButlerError turn_stopped, turn_mismatch, queue_full, validation_failed; StaleOwnerError; UnavailableError
   */
  abstract spawnChild(request: {
    parent: SessionKey & Ref;
    epoch: number;
    callId: Id;
    sessionId: Id;
    content: Content;
  }): Promise<{ child: SRef }>;
}
