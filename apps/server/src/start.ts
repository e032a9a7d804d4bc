import 'reflect-metadata';
import { loadSettings, type Settings, SettingsError } from '#platform';
import { startPod } from './pod.js';

/* eslint-disable no-console -- here and in main.ts the process speaks to whoever started it */

/** Starts a pod as the environment says. What is wrong with that is told in one line each, with exit code 1. */
export async function start(): Promise<void> {
  const settings = settingsOrEnd();
  try {
    const { url } = await startPod({ settings });
    if (settings.authMode === 'dev') welcome(url);
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}

function settingsOrEnd(): Settings {
  try {
    return loadSettings(process.env);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    for (const fault of error.faults) console.error(fault);
    process.exit(1);
  }
}

function welcome(url: string): void {
  const session = `${url}/v1/sessions/first`;
  console.log(`Butler listens at ${url}. Try:
  curl -s ${session}/messages -H 'content-type: application/json' -d '{"content":"How busy is this machine?"}'
  curl -sN '${session}/stream?after=0'
  ${url}/docs`);
}
