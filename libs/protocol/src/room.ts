/** The place among the pod's ACTOR_MAX_ACTIVE that a running turn takes. One that waits for others gives it back meanwhile. */
export interface Room {
  leave(): void;
  /** Resolves when there is a place again: first come, first served, before any new turn. */
  enter(): Promise<void>;
}
