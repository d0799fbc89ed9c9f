import type { Type } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { ALERT_SINK } from '../distributed-scheduler.tokens.js';
import type { AlertSink } from '../domain/alert.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { AlertSinkOption } from '../options/alert-options.js';

/**
 * The sink that the options name, or the application's provider of `ALERT_SINK`, wherever it is; null without either.
 * @throws InvalidOptionsError when there is no such provider, or it is none
 */
export async function findSink(given: AlertSinkOption | null, modules: ModuleRef): Promise<AlertSink | null> {
  const sink = given === null ? provided(modules, ALERT_SINK) : isToken(given) ? (provided(modules, given) ?? (await made(given, modules))) : given;
  if (sink === null || typeof sink.alert === 'function') return sink;
  throw new InvalidOptionsError(['DistributedSchedulerModule: alerts.sink: expected something with a method alert(alert).']);
}

function isToken(given: AlertSinkOption): given is Exclude<AlertSinkOption, AlertSink> {
  return typeof given !== 'object';
}

function provided(modules: ModuleRef, token: string | symbol | Type<AlertSink>): AlertSink | null {
  try {
    return modules.get<AlertSink>(token as Type<AlertSink>, { strict: false });
  } catch (error) {
    if ((error as Error).constructor.name === 'UnknownElementException') return null;
    throw error;
  }
}

async function made(token: string | symbol | Type<AlertSink>, modules: ModuleRef): Promise<AlertSink> {
  if (typeof token === 'function') return modules.create(token);
  throw new InvalidOptionsError([`DistributedSchedulerModule: alerts.sink: no module provides ${String(token)}.`]);
}
