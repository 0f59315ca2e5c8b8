"""`manage.py bench`: what a lifecycle costs on this machine, on both databases (docs/benchmark.md).

Everything runs in processes of its own on databases made for the occasion; the deployment's is never opened. This
package is an app only in those processes (`benchmark.settings`), so that its agents exist nowhere else.
"""
